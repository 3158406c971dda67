#include "faults/bench.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "base/file.h"
#include "support/budget.h"

namespace heed::test {
namespace {

constexpr int64_t kAllowedBytes = int64_t{64} << 20;

[[noreturn]] void become_program(const Run& run, const std::string& folder) {
  const auto redirect = [](int descriptor, const std::string& path, int flags) {
    const int opened = open(path.c_str(), flags, 0600);
    if (opened < 0 || dup2(opened, descriptor) < 0) {
      _exit(120);
    }
  };
  redirect(STDIN_FILENO, folder + "/in", O_RDONLY);
  redirect(STDOUT_FILENO, folder + "/out", O_WRONLY | O_CREAT | O_TRUNC);
  redirect(STDERR_FILENO, folder + "/err", O_WRONLY | O_CREAT | O_TRUNC);
  for (const auto& [name, value] : run.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  for (const auto& [which, value] : run.limits) {
    const rlimit limit{value, value};
    setrlimit(static_cast<__rlimit_resource_t>(which), &limit);
  }
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGXFSZ, SIGPIPE}) {
    signal(number, SIG_DFL);
  }
  std::vector<std::string> words = run.launcher;
  words.push_back(program().native());
  words.insert(words.end(), run.arguments.begin(), run.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(121);
}

/// What the program takes to start: part of every measurement.
const Outcome& idle_outcome() {
  static const Outcome idle = run_program({.arguments = {"--version"}});
  return idle;
}

std::string command_of(const Run& run) {
  std::string text = "heed";
  for (const std::string& argument : run.arguments) {
    text += " " + argument.substr(0, 120);
  }
  return text;
}

}  // namespace

Outcome run_program(const Run& run) {
  const TemporaryFolder folder;
  std::ofstream(folder / "in", std::ios::binary) << run.input;
  for (const char* name : {"out", "err"}) {  // there even where the child is killed at once
    const std::ofstream empty(folder / name);
  }
  const pid_t child = fork();
  if (child == 0) {
    become_program(run, folder.path().native());
  }
  if (run.meanwhile) {
    run.meanwhile(child);
  }
  if (run.kill_signal != 0) {
    usleep(static_cast<useconds_t>(run.kill_after * 1e6));
    kill(child, run.kill_signal);
  }
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome.out = read_file(folder / "out");
  outcome.err = read_file(folder / "err");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  outcome.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  outcome.peak_bytes = static_cast<int64_t>(used.ru_maxrss) * 1024;
  return outcome;
}

std::string Bench::file(const std::string& name, const std::string& content) {
  const std::filesystem::path path = folder_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

namespace {

/// Where the JSON value that begins behind `begin` ends. Strings in it hold no brackets.
size_t end_of_value(const std::string& json, size_t begin) {
  int depth = 0;
  for (size_t at = begin; at < json.size(); ++at) {
    const char each = json[at];
    depth += each == '{' || each == '[' ? 1 : each == '}' || each == ']' ? -1 : 0;
    if (depth < 0 || (depth == 0 && each == ',')) {
      return at;
    }
  }
  return json.size();
}

}  // namespace

std::string Bench::model(const std::string& name,
                         const std::vector<std::pair<std::string, std::string>>& replace) {
  const std::filesystem::path copy = folder_ / ("model" + std::to_string(models_++));
  std::filesystem::copy(golden("models/" + name), copy);
  std::string config = read_file(copy / "config.json");
  for (const auto& [key, value] : replace) {
    const size_t at = config.find("\"" + key + "\":");
    const size_t begin = at == std::string::npos ? at : config.find(':', at) + 1;
    if (at == std::string::npos) {
      config.insert(config.find('{') + 1, "\"" + key + "\": " + value + ",");
    } else {
      config.replace(begin, end_of_value(config, begin) - begin, " " + value);
    }
  }
  std::ofstream(copy / "config.json", std::ios::binary) << config;
  return copy;
}

void Bench::count(const std::string& problem, const std::string& what) {
  ++tried_;
  if (problem.empty()) {
    ++right_;
  } else {
    problems_.push_back(std::to_string(line_) + ": " + what + ": " + problem);
  }
}

void Bench::refused(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& words, int code, int64_t bytes) {
  refused(Run{.arguments = arguments}, words, code, bytes);
}

void Bench::refused(const Run& run, const std::vector<std::string>& words, int code,
                    int64_t bytes) {
  const Outcome outcome = run_program(run);
  std::string problem;
  const auto demand = [&](bool right, const std::string& what) {
    if (!right && problem.empty()) {
      problem = what;
    }
  };
  demand(outcome.signal == 0, "ended by signal " + std::to_string(outcome.signal));
  demand(outcome.code == code,
         "exit code " + std::to_string(outcome.code) + ", expected " + std::to_string(code));
  demand(outcome.err.starts_with("heed: "), "no message of heed's");
  const auto lines = std::count(outcome.err.begin(), outcome.err.end(), '\n');
  demand(lines == 1 || (code == 2 && lines == 2), std::to_string(lines) + " lines on stderr");
  for (const std::string& word : words) {
    demand(outcome.err.find(word) != std::string::npos, "'" + word + "' is not in the message");
  }
  demand(outcome.err.find("exception") == std::string::npos &&
             outcome.err.find("filesystem error") == std::string::npos,
         "a library's raw text");
  const double seconds = outcome.cpu_seconds - idle_outcome().cpu_seconds;
  demand(seconds < budget(1.0), std::to_string(seconds) + " s of processor time");
  const int64_t memory = outcome.peak_bytes - idle_outcome().peak_bytes;
  demand(kSanitized || kEmulated || counted() || memory <= bytes + kAllowedBytes,
         std::to_string(memory) + " bytes of memory");
  count(problem.empty() ? "" : problem + ": " + outcome.err.substr(0, 400), command_of(run));
}

Outcome Bench::accepted(const Run& run) {
  Outcome outcome = run_program(run);
  count(outcome.code == 0 ? ""
                          : "exit code " + std::to_string(outcome.code) + ", signal " +
                                std::to_string(outcome.signal) + ": " + outcome.err.substr(0, 400),
        command_of(run));
  return outcome;
}

void Bench::expect(bool right, const std::string& what) { count(right ? "" : "not so", what); }

Run one_block_training(Bench& bench, const std::string& task, const std::string& data,
                       const std::vector<std::string>& more) {
  Run run;
  run.arguments = {"train", "--task",  task, "--data",  data, "--tokenizer", "char", "--layers",
                   "1",     "--heads", "1",  "--width", "8",  "--context",   "16",   "--quiet"};
  run.arguments.insert(run.arguments.end(), more.begin(), more.end());
  run.environment = {{"XDG_CACHE_HOME", bench.path("cache")}};
  return run;
}

std::string lines_about_cats(Bench& bench) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "the " + std::to_string(i) + " cats sat on the mat\n";
  }
  return bench.file("text.txt", text);
}

Run small_training(Bench& bench, const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> all = {
      "--batch", "2",        "--steps", "6",     "--checkpoint-every", "2", "--keep",
      "2",       "--warmup", "1",       "--out", bench.path(out)};
  all.insert(all.end(), more.begin(), more.end());
  return one_block_training(bench, "lm", lines_about_cats(bench), all);
}

std::string trained_weights(Bench& bench, const std::string& out) {
  return read_file(bench.path(out) / "model" / "model.safetensors");
}

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

std::string safetensors(const std::string& header, size_t data_bytes) {
  return little_endian(header.size(), 8) + header + std::string(data_bytes, '\0');
}

}  // namespace heed::test
