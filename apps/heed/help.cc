#include "heed/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/language.h"
#include "heed/picture.h"

namespace heed::app {
namespace {

constexpr size_t kWidth = 96;
/// The heading that options have where none was given, for the catalogue of messages.
[[maybe_unused]] constexpr const char* kHeading = say("Options");
constexpr size_t kHelpColumn = 30;

/// Appends `text` from `column` on, broken at spaces and after bars; a newline stays one. Widths
/// are those of a terminal: a Korean letter takes two columns.
void append_wrapped(std::string& out, const std::string& text, size_t column, size_t used) {
  out += used < column ? std::string(column - used, ' ') : "\n" + std::string(column, ' ');
  bool fresh = true;  // whether the line has nothing yet
  size_t width = column;
  // A line of a list, which begins with spaces, goes on further in.
  const auto hanging = [&](size_t begin) {
    const size_t spaces = std::min(text.find_first_not_of(' ', begin), text.size()) - begin;
    return column + (spaces == 0 ? 0 : spaces + 2);
  };
  size_t margin = hanging(0);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find_first_of(" |\n", begin);
    end = end == std::string::npos ? text.size() : end + (text[end] == '|' ? 1 : 0);
    const std::string word = text.substr(begin, end - begin);
    const auto wide = static_cast<size_t>(display_width(word));
    if (!fresh && width + wide > kWidth) {
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n" + std::string(margin, ' ');
      width = margin;
    }
    out += word;
    width += wide;
    fresh = false;
    begin = end;
    if (begin < text.size() && text[begin] == ' ') {
      out += ' ';
      ++width;
      ++begin;
    } else if (begin < text.size() && text[begin] == '\n') {
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n" + std::string(column, ' ');
      width = column;
      fresh = true;
      ++begin;
      margin = hanging(begin);
    }
  }
  out.erase(out.find_last_not_of(' ') + 1);
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
  std::string text(translate(option.help()));
  if (!option.choices().empty() && text.find('\n') == std::string::npos) {
    text += ": " + option.value_name();
  }
  if (option.is_required() && !option.is_positional()) {
    text += tell(" (required)");
  } else if (!option.default_text().empty() &&
             option.help().find("(default") == std::string::npos) {
    text += tell(" (default: {})", option.default_text());
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

/// The commands by what people want to do.
struct Group {
  const char* title;
  std::vector<std::string_view> names;
};

const std::vector<Group>& command_groups() {
  static const std::vector<Group> groups = {
      {say("Start here"), {"quickstart", "explore"}},
      {say("Use a model"),
       {"generate", "chat", "translate", "classify", "fill", "embed", "rerank", "caption",
        "transcribe", "predict", "serve"}},
      {say("Look inside"), {"inspect", "info", "attention", "forward", "cost"}},
      {say("Train a model"), {"train", "eval", "data", "tokenize", "convert", "cache"}},
      {say("Search documents"), {"index", "search", "ask"}},
      {say("Set up"), {"doctor", "completion", "manual"}}};
  return groups;
}

std::string program_help() {
  std::string text =
      tell("heed builds, trains, runs and inspects Transformers on an ordinary CPU.") + "\n\n" +
      tell("Usage: {}", tell("heed COMMAND [options]")) + "\n";
  for (const Group& group : command_groups()) {
    text += fmt::format("\n{}:\n", translate(group.title));
    for (const std::string_view name : group.names) {
      const auto found = std::find_if(commands().begin(), commands().end(),
                                      [&](const Command& each) { return each.name == name; });
      text += fmt::format("  {:<12} {}\n", name, translate(found->summary));
    }
  }
  return text + "\n" +
         tell(
             "`heed COMMAND --help` shows a command's options and examples. Every option can also "
             "be\nset in the environment, --max-tokens as HEED_MAX_TOKENS; the command line takes "
             "precedence.\n`heed --version` shows the version, `heed doctor` all that a bug report "
             "needs.") +
         "\n";
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
  return text + " " + tell("[options]");
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
  std::string text = std::string(translate(command.summary)) + "\n\n" +
                     tell("Usage: {}", usage_line(command, options)) + "\n";
  const auto append_option = [&](const Option& option) {
    const std::string left = "  " + option_names(option);
    text += left;
    append_wrapped(text, option_text(option), kHelpColumn,
                   static_cast<size_t>(display_width(left)));
  };
  const bool positionals = std::any_of(options.all().begin(), options.all().end(),
                                       [](const Option& o) { return o.is_positional(); });
  if (positionals) {
    text += "\n" + tell("Arguments:") + "\n";
    for (const Option& option : options.all()) {
      if (option.is_positional()) {
        append_option(option);
      }
    }
  }
  for (const std::string& group : option_groups(options)) {
    text += fmt::format("\n{}:\n", translate(group));
    for (const Option& option : options.all()) {
      if (!option.is_positional() && option.group() == group) {
        append_option(option);
      }
    }
  }
  text += "  -h, --help                  " + tell("Show this help") + "\n";
  text += "  --version                   " + tell("Show the version") + "\n\n";
  text += tell("Examples:") + "\n";
  for (const std::string& example : command.examples) {
    text += "  " + example + "\n";
  }
  return text;
}

}  // namespace heed::app
