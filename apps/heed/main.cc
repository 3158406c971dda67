#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>

#include "base/language.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/doctor.h"
#include "heed/help.h"
#include "heed/language.h"
#include "heed/lessons.h"
#include "heed/open.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "heed/version.h"

namespace heed::app {

int exit_code(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const ErrorKind kind = known != nullptr ? known->kind() : ErrorKind::runtime;
  return kind == ErrorKind::usage ? 2 : kind == ErrorKind::data ? 3 : 1;
}

namespace {

/// One subcommand as the parser sees it.
struct Entry {
  const Command* command = nullptr;
  OptionTable options;
  std::function<int()> runner;
  CLI::App* parser = nullptr;
};

/// The parser only cuts the command line into values; what they mean is the table's business.
void add_to_parser(CLI::App& parser, Option& option) {
  std::string names = option.name();
  for (const std::string& alias : option.aliases()) {
    names += "," + alias;
  }
  if (option.is_flag()) {
    parser.add_flag_callback(names, [&option] { option.assign({"true"}); });
    return;
  }
  CLI::Option* added = parser.add_option(names, [&option](const std::vector<std::string>& values) {
    option.assign(values);
    return true;
  });
  if (option.is_list()) {
    if (option.is_positional()) {
      added->expected(1, std::numeric_limits<int>::max())->allow_extra_args();
    } else {
      added->expected(1)->take_all();
    }
  } else {
    added->expected(1)->take_last();
  }
}

void assign_environment(OptionTable& options) {
  for (Option& option : options.all()) {
    const std::string name = option.given() ? std::string() : option.environment();
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    if (value != nullptr && *value != '\0') {
      option.assign({value});
    }
  }
}

int usage_error(const std::string& message, const std::string& command) {
  std::fprintf(
      stderr, "heed: %s\n%s\n", printable(translate_message(message)).c_str(),
      tell("`heed {}--help` shows how to use it", command.empty() ? "" : command + " ").c_str());
  return 2;
}

/// "--prompt needs a value" instead of the parser's "--prompt: 1 required  missing".
std::string parse_message(const CLI::ParseError& error) {
  const std::string text = error.what();
  return dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr
             ? text
             : tell("{} needs a value", text.substr(0, text.find(':')));
}

/// A word that nothing takes: says which one was meant.
int unknown_word(std::string word, Entry* entry, const std::vector<Entry>& entries) {
  std::erase(word, kValueMark);
  std::vector<std::string> candidates;
  if (entry == nullptr) {
    for (const Entry& each : entries) {
      candidates.push_back(each.command->name);
    }
  } else {
    for (const Option& option : entry->options.all()) {
      if (!option.is_positional()) {
        candidates.push_back(option.name());
      }
    }
  }
  const std::string typed = word.substr(0, word.find('='));
  const std::string near = nearest(typed, candidates);
  const std::string message = entry == nullptr         ? tell("there is no command {}", typed)
                              : typed.starts_with("-") ? tell("there is no option {}", typed)
                                                       : tell("there is no argument {}", typed);
  return usage_error(message + (near.empty() ? "" : tell("; did you mean {}?", near)),
                     entry == nullptr ? "" : entry->command->name);
}

int missing_argument(Entry& entry) {
  for (const Option& option : entry.options.all()) {
    if (option.is_required() && !option.given()) {
      return usage_error(
          tell("{} needs {}: {}", entry.command->name, option.name(), translate(option.help())),
          entry.command->name);
    }
  }
  return 0;
}

/// The words of the command line, last first, as the parser takes them. A negative number and what
/// follows `--` are values, whatever they begin with: a mark says so, which Option::assign() drops.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  bool only_values = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--" && !only_values) {
      only_values = true;
      continue;
    }
    const bool number = word.size() > 1 && word[0] == '-' &&
                        word.find_first_not_of("0123456789.,eE+-", 1) == std::string::npos &&
                        word.find_first_of("0123456789") != std::string::npos;
    const bool marked = word.starts_with("-") && (number || only_values);
    words.insert(words.begin(), marked ? std::string(1, kValueMark) + word : word);
  }
  return words;
}

/// The library names an option as its own callers do, "top_k: 0 is …"; here it is a flag.
std::string with_flag(const Error& error, OptionTable& options) {
  const std::string message = error.what();
  std::string flag = "--" + message.substr(0, message.find(':'));
  std::replace(flag.begin(), flag.end(), '_', '-');
  return error.kind() == ErrorKind::usage && options.find(flag) != nullptr
             ? flag + message.substr(flag.size() - 2)
             : message;
}

int run(int argc, char** argv) {
  CLI::App app("", "heed");
  app.set_help_flag();
  bool help = false, version = false, verbose = false;
  app.add_flag("-h,--help", help);
  app.add_flag("--version", version);
  app.add_flag("--verbose", verbose);
  std::string language;  // main() has looked at it already
  app.add_option("--lang", language);
  app.fallthrough(false);
  app.require_subcommand(0, 1);  // a model may be called "quickstart": one command, then its words
  Common common;
  std::vector<Entry> entries(commands().size());
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    entry.command = &commands()[i];
    entry.runner = entry.command->setup(entry.options, common);
    add_common(*entry.command, entry.options, common);
    entry.parser = app.add_subcommand(entry.command->name);
    entry.parser->set_help_flag();
    entry.parser->add_flag("-h,--help", help);
    entry.parser->add_flag("--version", version);
    entry.parser->allow_extras();
    for (Option& option : entry.options.all()) {
      add_to_parser(*entry.parser, option);
    }
  }
  app.allow_extras();
  Entry* chosen = nullptr;
  const auto find_chosen = [&] {
    for (Entry& entry : entries) {
      if (entry.parser->parsed()) {
        chosen = &entry;
      }
    }
  };
  try {
    app.parse(words_of(argc, argv));
    find_chosen();
  } catch (const CLI::ParseError& error) {
    find_chosen();
    if (!help) {
      return usage_error(parse_message(error), chosen == nullptr ? "" : chosen->command->name);
    }
  } catch (const Error& error) {  // a value that an option does not take
    find_chosen();
    return usage_error(error.what(), chosen == nullptr ? "" : chosen->command->name);
  }
  if (version) {
    print(fmt::format("heed {}\n", heed::version()) + (verbose ? doctor_text() : ""));
    return 0;
  }
  if (help) {
    print(chosen == nullptr ? program_help() : command_help(*chosen->command, chosen->options));
    return 0;
  }
  if (chosen == nullptr) {
    const std::vector<std::string> rest = app.remaining();
    return rest.empty() ? usage_error(tell("which command? {}", command_list()), "")
                        : unknown_word(rest.front(), nullptr, entries);
  }
  if (const std::vector<std::string> rest = chosen->parser->remaining(); !rest.empty()) {
    return unknown_word(rest.front(), chosen, entries);
  }
  assign_environment(chosen->options);
  if (const int code = missing_argument(*chosen); code != 0) {
    return code;
  }
  if (common.threads > 0) {
    set_thread_count(common.threads);
  }
  set_activation_type(dtype_from_name(common.dtype));
  try {
    return chosen->runner();
  } catch (const Error& error) {
    throw Error(error.kind(), with_flag(error, chosen->options));
  }
}

/// A closed stdin, stdout or stderr becomes /dev/null: the next file to be opened would else take
/// its number, and get what is printed.
void open_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDWR) != file) {
      std::exit(1);
    }
  }
}

/// True if stdout is a pipe or socket that nobody reads from any more.
bool reader_is_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/// The exit code once stdout is flushed. A reader that left early, as `| head -1` does, had what it
/// wanted.
int finish(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int why = errno;
  if ((flushed && std::ferror(stdout) == 0) || why == EPIPE || reader_is_gone()) {
    return code;
  }
  std::fprintf(stderr, "heed: stdout: %s\n",
               why == 0 ? tell("cannot be written").c_str()
                        : tell("cannot be written: {}", std::strerror(why)).c_str());
  return code == 0 ? 1 : code;
}

/// Ends a command that does nothing else about it: no half-written file stays behind.
void on_interrupt(int) {
  remove_open_temporaries();
  _exit(kInterrupted);
}

/// A terminal that closes means what SIGTERM means; training replaces that handler by its own.
/// Called and not raised: the thread sanitizer keeps back what is raised in a handler.
void on_hangup(int) {
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  if (now.sa_handler == SIG_DFL) {
    raise(SIGTERM);
  } else if (now.sa_handler != SIG_IGN) {
    now.sa_handler(SIGTERM);
  }
}

/// What a parent process ignores on purpose, such as nohup SIGHUP, stays ignored.
void handle(int number, void (*handler)(int)) {
  if (signal(number, handler) == SIG_IGN) {
    signal(number, SIG_IGN);
  }
}

void install_signal_handlers() {
  signal(SIGPIPE, SIG_IGN);  // a closed stdout is a write error, not a death
  signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is a write error, too
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_interrupt);
  handle(SIGHUP, on_hangup);
}

int report(const char* message, int code) {
  constexpr size_t kLongest = 1 << 14;  // a message may quote what a file holds
  std::fprintf(stderr, "heed: %s\n", printable(translate_message(message), kLongest).c_str());
  return code;
}

}  // namespace

/// The language that --lang, HEED_LANG or the locale asks for, before anything else is looked at:
/// what is wrong with the other options is said in it, too.
std::string language_of(int argc, char** argv) {
  constexpr std::string_view kOption = "--lang";
  std::string asked;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") {
      break;
    }
    if (word == kOption && i + 1 < argc) {
      asked = argv[i + 1];
    } else if (word.starts_with(kOption) && word.substr(kOption.size()).starts_with("=")) {
      asked = word.substr(kOption.size() + 1);
    }
  }
  const char* variable = std::getenv("HEED_LANG");
  return chosen_language(!asked.empty()        ? asked
                         : variable != nullptr ? std::string(variable)
                                               : std::string());
}

/// Runs the program and turns what it throws into a message and an exit code.
int run_and_report(int argc, char** argv) {
  try {
    return finish(run(argc, argv));
  } catch (const ReaderGone&) {
    return 0;  // `| head -1` has what it wanted
  } catch (const Error& error) {
    return report(error.what(), exit_code(error));
  } catch (const std::bad_alloc&) {
    return report(tell("out of memory").c_str(), 1);
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string where = error.path1().empty() ? tell("file system") : error.path1().native();
    return report((where + ": " + error.code().message()).c_str(), 1);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {  // of std::thread
      return report(tell("a thread cannot be started: the limit on processes or memory is reached "
                         "(ulimit -u, ulimit -v)")
                        .c_str(),
                    1);
    }
    // EPIPE: {fmt} found that the reader has gone.
    return error.code().value() == EPIPE ? 0 : report(error.code().message().c_str(), 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}

}  // namespace heed::app

int main(int argc, char** argv) {
  heed::register_synthetic_datasets();
  heed::set_message_language(heed::app::language_of(argc, argv));
  heed::app::install_signal_handlers();
  heed::app::open_standard_files();
  try {
    return heed::app::run_and_report(argc, argv);
  } catch (const std::bad_alloc&) {  // not even memory for the message
    constexpr std::string_view kMessage = "heed: out of memory\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
    return 1;
  }
}
