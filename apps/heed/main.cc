#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <new>

#include "heed/command.h"
#include "heed/error.h"
#include "heed/parallel.h"

namespace heed::app {
namespace {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::data:
      return 3;
    case ErrorKind::runtime:
      break;
  }
  return 1;
}

void add_common(CLI::App& app, Common& common) {
  app.add_option("--threads", common.threads, "Threads to use (default: one a core)")
      ->envname("HEED_THREADS")
      ->check(CLI::Range(1, 1024))
      ->group("Common");
  app.add_flag("--json", common.json, "Print JSON for programs")->group("Common");
  app.add_flag("--quiet", common.quiet, "No progress on stderr")->group("Common");
  app.add_option("--color", common.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str()
      ->group("Common");
}

std::string footer(const Command& command) {
  std::string text = "Examples:\n";
  for (const std::string& example : command.examples) {
    text += "  " + example + "\n";
  }
  return command.examples.empty() ? std::string() : text;
}

int run(int argc, char** argv) {
  CLI::App app(
      "heed builds, trains, runs and looks inside Transformers on an ordinary CPU machine.",
      "heed");
  app.set_version_flag("--version", "heed " HEED_VERSION);
  app.require_subcommand(1);
  Common common;
  std::vector<std::pair<CLI::App*, std::function<int()>>> runners;
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(footer(command));
    runners.emplace_back(sub, command.setup(*sub, common));
    add_common(*sub, common);
    sub->set_version_flag("--version", "heed " HEED_VERSION);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    app.exit(error, std::cerr, std::cerr);
    return 2;
  }
  if (common.threads > 0) {
    set_thread_count(common.threads);
  }
  for (const auto& [sub, runner] : runners) {
    if (sub->parsed()) {
      return runner();
    }
  }
  return 2;
}

}  // namespace
}  // namespace heed::app

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a closed stdout is a write error, not a death
  try {
    const int code = heed::app::run(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return code == 0 ? 1 : code;
    }
    return code;
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "heed: %s\n", error.what());
    return heed::app::exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "heed: out of memory\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heed: %s\n", error.what());
    return 1;
  }
}
