#include "heed/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "heed/picture.h"

namespace heed::app {
namespace {

constexpr size_t kWidth = 96;
constexpr size_t kHelpColumn = 30;

/// Appends `text` from `column` on, broken at spaces and after bars; a newline stays one.
void append_wrapped(std::string& out, const std::string& text, size_t column, size_t used) {
  size_t begin = 0;
  bool first = true;
  while (begin < text.size()) {
    size_t line_end = std::min(text.find('\n', begin), text.size());
    size_t end = std::min(line_end, begin + (kWidth - column));
    if (end < line_end) {
      size_t place = text.find_last_of(" |", end - 1);
      if (place != std::string::npos && text[place] == '|') {
        ++place;
      } else if (text[end] == ' ') {
        place = end;
      }
      end = place != std::string::npos && place > begin ? place : end;
    }
    out.append(first && used < column ? column - used : 0, ' ');
    if (!first || used >= column) {
      out += '\n';
      out.append(column, ' ');
    }
    out.append(text, begin, end - begin);
    first = false;
    begin = end;
    while (begin < text.size() && (text[begin] == ' ' || begin == line_end)) {
      const bool line_ended = text[begin] == '\n';
      ++begin;
      if (line_ended) {
        break;
      }
    }
  }
  out += '\n';
}

}  // namespace

std::string option_names(const Option& option) {
  std::string text, more;
  for (const std::string& alias : option.aliases()) {
    (alias.starts_with("--") ? more : text) +=
        alias.starts_with("--") ? ", " + alias : alias + ", ";
  }
  text += option.name() + more;
  const std::string value = option.value_name();
  if (!option.is_positional() && !value.empty()) {
    text += " " + (option.choices().empty() ? value : std::string("NAME"));
  }
  return text + (option.is_positional() && option.is_list() ? "…" : "");
}

std::string option_text(const Option& option) {
  std::string text = option.help();
  if (!option.choices().empty() && text.find('\n') == std::string::npos) {
    text += ": " + option.value_name();
  }
  if (option.is_required() && !option.is_positional()) {
    text += " (required)";
  } else if (!option.default_text().empty() && text.find("(default") == std::string::npos) {
    text += " (default: " + option.default_text() + ")";
  }
  return text;
}

std::string command_list() {
  std::string text;
  for (const Command& command : commands()) {
    text += (text.empty() ? "" : ", ") + command.name;
  }
  return text;
}

std::string program_help() {
  std::string text =
      "heed builds, trains, runs and looks inside Transformers on an ordinary CPU machine.\n\n"
      "Usage: heed COMMAND [options]\n\nCommands:\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<12} {}\n", command.name, command.summary);
  }
  return text +
         "\n`heed COMMAND --help` shows a command's options and examples. Every option can also be "
         "set\nby the environment: --max-tokens by HEED_MAX_TOKENS; what is typed goes first.\n"
         "`heed --version` shows the version.\n";
}

std::string usage_line(const Command& command, const OptionTable& options) {
  std::string text = "heed " + command.name;
  for (const Option& option : options.all()) {
    if (option.is_positional()) {
      const std::string name = option.name() + (option.is_list() ? "…" : "");
      text += option.is_required() ? " " + name : " [" + name + "]";
    } else if (option.is_required()) {
      text += " " + option.name() + " " + option.value_name();
    }
  }
  return text + " [options]";
}

std::vector<std::string> option_groups(const OptionTable& options) {
  std::vector<std::string> groups;
  for (const Option& option : options.all()) {
    if (!option.is_positional() &&
        std::find(groups.begin(), groups.end(), option.group()) == groups.end()) {
      groups.push_back(option.group());
    }
  }
  return groups;
}

std::string command_help(const Command& command, const OptionTable& options) {
  std::string text = command.summary + "\n\nUsage: " + usage_line(command, options) + "\n";
  const auto append_option = [&](const Option& option) {
    const std::string left = "  " + option_names(option);
    text += left;
    append_wrapped(text, option_text(option), kHelpColumn,
                   static_cast<size_t>(display_width(left)));
  };
  const bool positionals = std::any_of(options.all().begin(), options.all().end(),
                                       [](const Option& o) { return o.is_positional(); });
  if (positionals) {
    text += "\nArguments:\n";
    for (const Option& option : options.all()) {
      if (option.is_positional()) {
        append_option(option);
      }
    }
  }
  for (const std::string& group : option_groups(options)) {
    text += "\n" + group + ":\n";
    for (const Option& option : options.all()) {
      if (!option.is_positional() && option.group() == group) {
        append_option(option);
      }
    }
  }
  text += "  -h, --help                  Show this\n";
  text += "  --version                   Show the version\n\nExamples:\n";
  for (const std::string& example : command.examples) {
    text += "  " + example + "\n";
  }
  return text;
}

}  // namespace heed::app
