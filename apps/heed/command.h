#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "heed/options.h"

namespace heed::app {

/// What every subcommand takes: --threads, --json, --quiet, --color, --lang, and --dtype where it
/// runs a model.
struct Common {
  int threads = 0;  ///< 0: one per core
  bool json = false;
  bool quiet = false;
  std::string color = "auto";
  std::string dtype = "f32";  ///< in which a model runs
  std::string language;       ///< as --lang said; main() has chosen the language of messages by it

  /// Whether colours may be used on the given file descriptor.
  bool colors(int descriptor) const;
};

/// One subcommand. `setup` adds its options to the parser and gives the function that runs it and
/// returns the exit code. The options' storage lives in that function's captures
/// (std::make_shared<Options>()).
struct Command {
  std::string name;
  std::string summary;                ///< one line
  std::vector<std::string> examples;  ///< two command lines a user would type
  std::function<std::function<int()>(OptionTable&, const Common&)> setup;
};

/// Registers a subcommand at start-up: `static Registration r{{"info", …}};` in its own file.
struct Registration {
  explicit Registration(Command command);
};

/// The program's exit code for an error: 2 usage, 3 bad data, 1 everything else.
int exit_code(const std::exception& error);
/// The exit code where a signal ended the work.
inline constexpr int kInterrupted = 130;

/// All subcommands, sorted by name.
const std::vector<Command>& commands();

/// Adds what every subcommand takes.
void add_common(const Command& command, OptionTable& options, Common& common);

/// Calls `visit` with every subcommand and the whole table of its options.
void for_each_command(const std::function<void(const Command&, const OptionTable&)>& visit);

}  // namespace heed::app
