#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/check.h"
#include "heed/command.h"
#include "heed/open.h"

// Scripts that complete `heed` in a shell, written from the tables of options. They stand alone:
// pressing Tab never starts the program.

namespace heed::app::completion_command {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

/// The first line or sentence of a help text.
std::string brief(const std::string& help) {
  return help.substr(0, std::min(help.find('\n'), help.find("; ")));
}

std::vector<std::string> names_of(const Option& option) {
  std::vector<std::string> names = option.aliases();
  names.push_back(option.name());
  return names;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.push_back(command.name);
  }
  return names;
}

/// The arms of bash's `case` for one subcommand: what follows an option, what may be typed.
std::string bash_command(const Command& command, const OptionTable& table) {
  std::vector<std::string> options, files, words;
  std::string choices, argument = "-";
  for (const Option& option : table.all()) {
    if (option.is_positional()) {
      argument =
          option.choices().empty() ? "files" : fmt::format("{}", fmt::join(option.choices(), " "));
      continue;
    }
    for (const std::string& name : names_of(option)) {
      options.push_back(name);
      if (!option.choices().empty()) {
        choices +=
            fmt::format("        {}) values=\"{}\" ;;\n", name, fmt::join(option.choices(), " "));
      } else if (option.is_file()) {
        files.push_back(name);
      } else if (!option.is_flag()) {
        words.push_back(name);
      }
    }
  }
  std::string text = fmt::format("    {})\n      options=\"{} --help --version\"\n", command.name,
                                 fmt::join(options, " "));
  text += fmt::format("      argument=\"{}\"\n      case $prev in\n{}", argument, choices);
  if (!files.empty()) {
    text += fmt::format("        {}) values=files ;;\n", fmt::join(files, " | "));
  }
  if (!words.empty()) {
    text += fmt::format("        {}) return ;;\n", fmt::join(words, " | "));
  }
  return text + "      esac\n      ;;\n";
}

std::string bash_script() {
  std::string cases;
  for_each_command([&](const Command& command, const OptionTable& table) {
    cases += bash_command(command, table);
  });
  return fmt::format(R"(# bash completion of heed; made by `heed completion bash`
_heed() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
  local options= argument=- values=
  COMPREPLY=()
  # Bash cuts --option=value in three.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "{} --help --version" -- "$cur")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}    *) return ;;
  esac
  if [[ -z $values ]]; then
    if [[ $cur == -* || $argument == - ]]; then
      values=$options
    else
      values=$argument
    fi
  fi
  if [[ $values == files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
  fi
}}
complete -F _heed heed
)",
                     fmt::join(command_names(), " "), cases);
}

/// Inside single quotes of a shell.
std::string single_quoted(const std::string& text) { return replaced(text, "'", "'\\''"); }

/// Inside `[…]` of zsh's _arguments.
std::string zsh_text(const std::string& help) {
  std::string text = replaced(brief(help), "\\", "\\\\");
  for (const char* special : {"[", "]", ":"}) {
    text = replaced(text, special, std::string("\\") + special);
  }
  return single_quoted(text);
}

std::string zsh_action(const Option& option) {
  if (!option.choices().empty()) {
    return fmt::format("({})", fmt::join(option.choices(), " "));
  }
  return option.is_file() ? "_files" : " ";
}

std::string zsh_script() {
  std::string names, cases;
  for_each_command([&](const Command& command, const OptionTable& table) {
    names += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
    cases += fmt::format("    {})\n      _arguments -s", command.name);
    for (const Option& option : table.all()) {
      if (option.is_positional()) {
        const std::string action =
            option.choices().empty() ? std::string("_files") : zsh_action(option);
        cases += fmt::format(" \\\n        '{}:{}:{}'", option.is_list() ? "*" : "", option.name(),
                             action);
        continue;
      }
      const std::vector<std::string> all = names_of(option);
      for (const std::string& name : all) {
        const std::string others = option.is_list() ? std::string("*")
                                   : all.size() > 1 ? fmt::format("({})", fmt::join(all, " "))
                                                    : std::string();
        cases += fmt::format(" \\\n        '{}{}{}[{}]", others, name,
                             option.is_flag()         ? ""
                             : name.starts_with("--") ? "="
                                                      : "+",
                             zsh_text(option.help()));
        cases += option.is_flag() ? std::string("'")
                                  : fmt::format(":{}:{}'", zsh_text(option.name().substr(2)),
                                                zsh_action(option));
      }
    }
    cases +=
        " \\\n        '(-h --help)'{-h,--help}'[Show the options]' \\\n        "
        "'--version[Show the version]'\n      ;;\n";
  });
  return fmt::format(R"(#compdef heed
# zsh completion of heed; made by `heed completion zsh`
_heed() {{
  local -a commands
  commands=(
{})
  if ((CURRENT == 2)); then
    _describe -t commands 'heed command' commands
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
{}  esac
}}
_heed "$@"
)",
                     names, cases);
}

std::string fish_text(const std::string& help) {
  return replaced(replaced(brief(help), "\\", "\\\\"), "'", "\\'");
}

std::string fish_script() {
  std::string text =
      "# fish completion of heed; made by `heed completion fish`\n"
      "complete -c heed -f\n"
      "complete -c heed -n __fish_use_subcommand -l version -d 'Show the version'\n"
      "complete -c heed -s h -l help -d 'Show the options'\n";
  for_each_command([&](const Command& command, const OptionTable& table) {
    text += fmt::format("complete -c heed -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                        fish_text(command.summary));
    const std::string here =
        fmt::format("complete -c heed -n '__fish_seen_subcommand_from {}'", command.name);
    for (const Option& option : table.all()) {
      const std::string choices = fmt::format("{}", fmt::join(option.choices(), " "));
      if (option.is_positional()) {
        text += here;
        text += choices.empty() ? " -F\n" : fmt::format(" -a '{}'\n", choices);
        continue;
      }
      text += here;
      for (const std::string& name : names_of(option)) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.is_flag()) {
        text += option.is_file() ? " -r -F" : choices.empty() ? " -x" : " -x -a '" + choices + "'";
      }
      text += fmt::format(" -d '{}'\n", fish_text(option.help()));
    }
  });
  return text;
}

std::function<int()> setup(OptionTable& table, const Common&) {
  auto shell = std::make_shared<std::string>();
  table.add("SHELL", &*shell, "The shell").choices({"bash", "zsh", "fish"}).required();
  return [shell] {
    print(*shell == "bash" ? bash_script() : *shell == "zsh" ? zsh_script() : fish_script());
    return 0;
  };
}

const Registration kRegistration{
    {"completion",
     "Print a script that completes heed in your shell",
     {"heed completion bash > ~/.local/share/bash-completion/completions/heed",
      "heed completion fish > ~/.config/fish/completions/heed.fish"},
     setup}};

}  // namespace
}  // namespace heed::app::completion_command
