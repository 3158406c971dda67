#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "heed/command.h"
#include "heed/help.h"
#include "heed/open.h"
#include "heed/version.h"

// Manual pages in roff's man macros, written from the tables of options.

namespace heed::app::manual_command {
namespace {

/// Text as roff: control characters escaped, everything beyond ASCII by its number, so that a page
/// reads the same in any locale.
std::string roff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (bytes > 1) {
      uint32_t code = lead & (0xFFu >> (bytes + 1));
      for (size_t j = 1; j < bytes && i + j < text.size(); ++j) {
        code = code << 6 | (static_cast<unsigned char>(text[i + j]) & 0x3Fu);
      }
      out += fmt::format("\\[u{:04X}]", code);
    } else if (text[i] == '\n') {
      out += "\n.br\n";
    } else if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else if (text[i] == '|') {
      out += "|\\:";  // a long list of choices may be broken here
    } else if (text[i] == '`') {
      out += "\\(ga";
    } else if (text[i] == '~') {
      out += "\\(ti";
    } else if (text[i] == '^') {
      out += "\\(ha";
    } else if (text[i] == '\'') {
      out += "\\(aq";
    } else {
      if (text[i] == '.' && (out.empty() || out.back() == '\n')) {
        out += "\\&";
      }
      out += text[i];
    }
    i += bytes;
  }
  return out;
}

/// Spaces at the beginning of a line of help would break the line in roff.
std::string roff_text(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : roff(text)) {
    if (c == ' ' && line_start) {
      continue;
    }
    line_start = c == '\n';
    out += c;
  }
  return out;
}

std::string title(const std::string& page) {
  // Ragged right: a list of choices has no spaces to stretch.
  return fmt::format(".TH {} 1 \"\" \"heed {}\" \"heed\"\n.ad l\n", page, heed::version());
}

std::string entry(const Option& option) {
  std::string text = ".TP\n\\fB" + roff(option_names(option)) + "\\fR\n";
  return text + roff_text(option_text(option)) + "\n";
}

std::string section(const std::string& name) { return ".SH " + roff(name) + "\n"; }

/// One line of a list: what stands on the left in bold, and what it means.
std::string item(const std::string& left, const std::string& text) {
  return ".TP\n\\fB" + roff(left) + "\\fR\n" + roff(text) + "\n";
}

std::string exit_status() {
  return section(tell("EXIT STATUS")) + item("0", tell("Success.")) +
         item("1", tell("The command failed while it ran.")) +
         item("2", tell("The command line is wrong.")) +
         item("3", tell("A model or data file is bad.")) +
         item("130", tell("The command was interrupted."));
}

std::string option_entries(const OptionTable& options) {
  std::string text;
  for (const std::string& group : option_groups(options)) {
    text += ".SS " + roff(std::string(translate(group))) + "\n";
    for (const Option& option : options.all()) {
      if (!option.is_positional() && option.group() == group) {
        text += entry(option);
      }
    }
  }
  return text + item("-h, --help", tell("Show the options.")) +
         item("--version", tell("Show the version."));
}

std::string command_page(const Command& command, const OptionTable& options) {
  std::string text = title("heed-" + command.name);
  text += section(tell("NAME")) + "heed\\-" + command.name + " \\- " +
          roff(std::string(translate(command.summary))) + "\n";
  text += section(tell("SYNOPSIS")) + "\\fB" + roff(usage_line(command, options)) + "\\fR\n";
  std::string arguments;
  for (const Option& option : options.all()) {
    arguments += option.is_positional() ? entry(option) : "";
  }
  text += arguments.empty() ? "" : section(tell("ARGUMENTS")) + arguments;
  text += section(tell("OPTIONS")) + option_entries(options);
  text +=
      section(tell("ENVIRONMENT")) +
      roff(tell("Every option can be set by a variable: HEED_ and its name in capitals, such as "
                "HEED_THREADS for --threads. The command line takes precedence.")) +
      "\n";
  text += exit_status() + section(tell("EXAMPLES")) + ".nf\n";
  for (const std::string& example : command.examples) {
    text += roff(example) + "\n";
  }
  return text + ".fi\n" + section(tell("SEE ALSO")) + "\\fBheed\\fR(1)\n";
}

std::string program_page() {
  std::string text = title("heed") + section(tell("NAME")) + "heed \\- " +
                     roff(tell("build, train, run and inspect Transformers")) + "\n";
  text += section(tell("SYNOPSIS")) + "\\fBheed\\fR \\fI" + tell("COMMAND") + "\\fR " +
          tell("[options]") + "\n";
  text +=
      section(tell("DESCRIPTION")) +
      roff(tell("heed builds, trains, runs and inspects attention models on an ordinary CPU. It "
                "reads and writes Hugging Face model folders and GGUF files. Results go to "
                "standard output, everything else to standard error.")) +
      "\n" + section(tell("COMMANDS"));
  std::string also;
  for (const Command& command : commands()) {
    text += ".TP\n\\fBheed\\-" + command.name + "\\fR(1)\n" +
            roff(std::string(translate(command.summary))) + "\n";
    also += (also.empty() ? "\\fBheed\\-" : ", \\fBheed\\-") + command.name + "\\fR(1)";
  }
  text += section(tell("ENVIRONMENT")) +
          item("HEED_NAME", tell("Sets the option of that name for every command.")) +
          item("NO_COLOR", tell("No colours where --color is auto."));
  return text + exit_status() + section(tell("SEE ALSO")) + also + "\n";
}

struct Options {
  std::string command, out;
};

int run(const Options& options) {
  if (options.out.empty() && options.command.empty()) {
    print(program_page());
    return 0;
  }
  const std::filesystem::path folder = options.out;
  if (!options.out.empty()) {
    make_folder(folder);
    write_file_atomically(folder / "heed.1", program_page());
  }
  for_each_command([&](const Command& command, const OptionTable& table) {
    const std::string page = command_page(command, table);
    if (!options.out.empty()) {
      write_file_atomically(folder / ("heed-" + command.name + ".1"), page);
    } else if (command.name == options.command) {
      print(page);
    }
  });
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common&) {
  auto o = std::make_shared<Options>();
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.push_back(command.name);
  }
  table.add("COMMAND", &o->command, "Whose page (default: the program's)").choices(names);
  table.add("-o,--output", &o->out, "Folder to write every page to").file();
  return [o] { return run(*o); };
}

const Registration kRegistration{
    {"manual",
     "Print a manual page for man",
     {"heed manual train | man -l -", "heed manual --lang ko -o man/ko/man1"},
     setup}};

}  // namespace
}  // namespace heed::app::manual_command
