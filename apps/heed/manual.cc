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

namespace heed::app {
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

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n.TP\n0\nAll is well.\n.TP\n1\nIt failed while running.\n.TP\n2\nThe command "
    "line makes no sense.\n.TP\n3\nA model or data file is bad.\n.TP\n130\nIt was interrupted.\n";

std::string command_page(const Command& command, const OptionTable& options) {
  std::string text = title("heed-" + command.name);
  text += ".SH NAME\nheed\\-" + command.name + " \\- " + roff(command.summary) + "\n";
  text += ".SH SYNOPSIS\n\\fB" + roff(usage_line(command, options)) + "\\fR\n";
  std::string arguments;
  for (const Option& option : options.all()) {
    arguments += option.is_positional() ? entry(option) : "";
  }
  text += arguments.empty() ? "" : ".SH ARGUMENTS\n" + arguments;
  text += ".SH OPTIONS\n";
  const std::vector<std::string> groups = option_groups(options);
  for (const std::string& group : groups) {
    text += ".SS " + roff(group) + "\n";
    for (const Option& option : options.all()) {
      if (!option.is_positional() && option.group() == group) {
        text += entry(option);
      }
    }
  }
  text += ".TP\n\\fB\\-h, \\-\\-help\\fR\nShow the options.\n";
  text += ".TP\n\\fB\\-\\-version\\fR\nShow the version.\n";
  text +=
      ".SH ENVIRONMENT\nEvery option can be set by a variable: HEED_ and its name in capitals, "
      "such as HEED_THREADS for \\fB\\-\\-threads\\fR. What is typed goes first.\n";
  text += kExitStatus;
  text += ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : command.examples) {
    text += roff(example) + "\n";
  }
  return text + ".fi\n.SH SEE ALSO\n\\fBheed\\fR(1)\n";
}

std::string program_page() {
  std::string text = title("heed");
  text +=
      ".SH NAME\nheed \\- build, train, run and look inside Transformers\n"
      ".SH SYNOPSIS\n\\fBheed\\fR \\fICOMMAND\\fR [options]\n"
      ".SH DESCRIPTION\nheed builds, trains, runs and looks inside attention models on an ordinary "
      "CPU machine. It reads and writes Hugging Face model folders and GGUF files. Results go to "
      "standard output, everything else to standard error.\n.SH COMMANDS\n";
  std::string also;
  for (const Command& command : commands()) {
    text += ".TP\n\\fBheed\\-" + command.name + "\\fR(1)\n" + roff(command.summary) + "\n";
    also += (also.empty() ? "\\fBheed\\-" : ", \\fBheed\\-") + command.name + "\\fR(1)";
  }
  text +=
      ".SH ENVIRONMENT\n.TP\nHEED_\\fINAME\\fR\nSets the option of that name for every command.\n"
      ".TP\nNO_COLOR\nNo colours where \\fB\\-\\-color\\fR is auto.\n";
  return text + kExitStatus + ".SH SEE ALSO\n" + also + "\n";
}

struct Options {
  std::string command, out;
};

int run(const Options& options) {
  set_message_language("en");  // pages are built once, for the section without a language
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

const Registration kRegistration{{"manual",
                                  "Print a manual page, in the form that man reads",
                                  {"heed manual train | man -l -", "heed manual -o man1"},
                                  setup}};

}  // namespace
}  // namespace heed::app
