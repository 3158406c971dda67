#pragma once

#include <string>

#include "heed/command.h"

namespace heed::app {

/// `heed --help`: what the program is and its subcommands.
std::string program_help();
/// `heed COMMAND --help`: summary, usage, options by heading with their defaults, examples.
std::string command_help(const Command& command, const OptionTable& options);
/// `-o, --output FILE`: how an option is typed.
std::string option_names(const Option& option);
/// What an option is for, with its choices and its default.
std::string option_text(const Option& option);
/// `heed COMMAND ARGUMENT --needed FILE [options]`
std::string usage_line(const Command& command, const OptionTable& options);
/// The headings of a table's options, in order.
std::vector<std::string> option_groups(const OptionTable& options);
/// The subcommands' names, separated by commas.
std::string command_list();

}  // namespace heed::app
