#pragma once

#include <string>

#include "heed/command.h"

namespace heed::app {

/// `heed --help`: what the program is and its subcommands.
std::string program_help();
/// `heed COMMAND --help`: summary, usage, options by heading with their defaults, examples.
std::string command_help(const Command& command, const OptionTable& options);
/// The subcommands' names, separated by commas.
std::string command_list();

}  // namespace heed::app
