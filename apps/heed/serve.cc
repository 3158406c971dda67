#include "heed/serve.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/background.h"
#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/print_message.h"
#include "heed/command.h"
#include "heed/generation_options.h"
#include "heed/model_options.h"
#include "serve/sandbox.h"

namespace heed::app::serve_command {
namespace {

struct Options {
  ServeOptions serve;
  std::string api_key_file, access_log, page = "on", sandbox = "on", kv_type = "f32";
  double drain = 30.0;
  bool explore = false, open = false, no_browser = false;
};

extern "C" char** environ;

/// Shows the page in the user's browser, where there is one.
void open_browser(const std::string& url) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) {
    return;
  }
  const std::array<const char*, 3> arguments{"xdg-open", url.c_str(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, "xdg-open", nullptr, nullptr, const_cast<char* const*>(arguments.data()),
                   environ) == 0) {
    std::thread([child] { waitpid(child, nullptr, 0); }).detach();
  }
}

/// Run folders among the models can be followed on the page; one without a model yet is only that.
void find_runs(ServeOptions& serve) {
  std::vector<std::string> models;
  for (const std::string& each : serve.models) {
    const size_t equals = each.find('=');
    const std::filesystem::path path = equals != std::string::npos && !std::filesystem::exists(each)
                                           ? each.substr(equals + 1)
                                           : each;
    const bool run = std::filesystem::exists(path / "metrics.jsonl");
    if (run) {
      serve.runs.push_back(std::filesystem::absolute(path).lexically_normal());
    }
    if (!run || std::filesystem::exists(path / "model" / "config.json")) {
      models.push_back(each);
    }
  }
  serve.models = std::move(models);
}

/// Writes log lines on a thread of its own: a reader of the log that stops reading must not stop
/// the server. Lines that do not fit the queue are counted and left out.
class LogWriter {
 public:
  explicit LogWriter(const std::string& path) {
    file_ = path == "-" ? stderr : std::fopen(path.c_str(), "ae");
    if (file_ == nullptr) {
      fail(ErrorKind::runtime, path, "cannot be written: {}", std::strerror(errno));
    }
    thread_ = std::thread([this] { run(); });
  }
  ~LogWriter() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (file_ != stderr) {
      std::fclose(file_);
    }
  }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void write(const std::string& line) {
    constexpr size_t kMost = 10'000;
    {
      const std::lock_guard lock(mutex_);
      if (lines_.size() >= kMost) {
        ++lost_;
        return;
      }
      lines_.push_back(line);
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !lines_.empty(); });
      if (lines_.empty()) {
        return;
      }
      std::deque<std::string> lines;
      lines.swap(lines_);
      if (lost_ > 0) {
        lines.push_back(fmt::format("{{\"lost_lines\":{}}}", std::exchange(lost_, 0)));
      }
      lock.unlock();
      for (const std::string& line : lines) {
        std::fputs((line + "\n").c_str(), file_);
      }
      std::fflush(file_);
      lock.lock();
    }
  }

  std::FILE* file_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  int64_t lost_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

/// Signals as bytes in a pipe, so that they are handled outside the handler.
class Signals {
 public:
  Signals() {
    if (pipe(ends().data()) != 0) {
      fail(ErrorKind::runtime, "serve", "no pipe: {}", std::strerror(errno));
    }
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      const int before = errno;
      const char byte = static_cast<char>(signal);
      [[maybe_unused]] const ssize_t count = ::write(ends()[1], &byte, 1);
      errno = before;
    };
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      sigaction(signal, &action, nullptr);
    }
  }
  /// The next signal; 0 where none comes within `milliseconds` (-1: waits).
  int wait(int milliseconds) {
    pollfd entry{ends()[0], POLLIN, 0};
    char byte = 0;
    return poll(&entry, 1, milliseconds) == 1 && read(ends()[0], &byte, 1) == 1 ? byte : 0;
  }

 private:
  static std::array<int, 2>& ends() {
    static std::array<int, 2> both{-1, -1};
    return both;
  }
};

/// Tells systemd (Type=notify) how the service is doing; nothing where it does not ask.
void notify_systemd(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) {
    return;
  }
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path);
  address.sun_path[0] = path[0] == '@' ? '\0' : path[0];
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0) {
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
    sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&address), length);
    close(descriptor);
  }
}

/// The socket that systemd has opened for this process; -1 where there is none.
int activated_socket() {
  constexpr int kFirst = 3;
  const char* process = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  const bool ours = process != nullptr && count != nullptr &&
                    std::strtol(process, nullptr, 10) == getpid() &&
                    std::strtol(count, nullptr, 10) >= 1;
  return ours ? kFirst : -1;
}

void read_keys(const std::string& file, std::vector<std::string>& keys) {
  constexpr uint64_t kMostBytes = 1 << 20;
  const size_t before = keys.size();
  std::istringstream stream(read_file(file, kMostBytes));
  std::string line;
  while (std::getline(stream, line)) {
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    if (!line.empty()) {
      keys.push_back(line);
    }
  }
  check_data(keys.size() > before, file, "holds no key");
}

/// Runs until SIGTERM or SIGINT. The process ends when the requests under way are answered or their
/// time is over, whatever a thread still computes; a second signal ends it at once.
int run_until_stopped(std::unique_ptr<Server> server, std::unique_ptr<LogWriter> access,
                      Signals& signals, double drain) {
  while (true) {
    const int signal = signals.wait(-1);
    if (signal == SIGHUP) {
      notify_systemd("RELOADING=1");
      server->reload();
      notify_systemd("READY=1");
    } else if (signal == SIGTERM || signal == SIGINT) {
      break;
    }
  }
  notify_systemd("STOPPING=1");
  constexpr std::chrono::milliseconds kGrace{1000};  // for threads to notice, and for the log
  const std::chrono::duration<double> time(drain);
  const auto end = std::chrono::steady_clock::now() + kGrace +
                   std::chrono::duration_cast<std::chrono::milliseconds>(time);
  std::future<void> stopping = run_in_background([&] {
    server->stop(drain);
    server.reset();
    access.reset();
  });
  while (stopping.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) {
    const int signal = signals.wait(20);
    if (signal == SIGTERM || signal == SIGINT) {
      std::_Exit(1);
    }
    if (std::chrono::steady_clock::now() > end) {
      std::_Exit(0);
    }
  }
  stopping.get();
  return 0;
}

int run(Options& options, const Common& common) {
  ServeOptions& serve = options.serve;
  serve.kv_type = dtype_from_name(options.kv_type);
  serve.page = options.page == "on";
  find_runs(serve);
  if (!options.api_key_file.empty()) {
    read_keys(options.api_key_file, serve.api_keys);
  }
  std::unique_ptr<LogWriter> access;
  if (!options.access_log.empty()) {
    access = std::make_unique<LogWriter>(options.access_log);
    serve.access_log = [log = access.get()](const std::string& line) { log->write(line); };
  }
  if (!common.quiet) {
    serve.log = [](const std::string& text) { print_message("heed: " + translate_message(text)); };
  }
  serve.listen_socket = activated_socket();
  Signals signals;
  auto server = std::make_unique<Server>(serve);
  std::future<void> starting = run_in_background([&] { server->start(); });
  while (starting.wait_for(std::chrono::milliseconds(0)) == std::future_status::timeout) {
    const int signal = signals.wait(20);
    if (signal == SIGTERM || signal == SIGINT) {
      std::_Exit(0);  // nobody has been promised anything yet
    }
  }
  starting.get();
  if (options.open && !options.no_browser) {
    open_browser(server->url());
  }
  if (options.sandbox == "on" && !heed::serve::forbid_outbound_connections() && !common.quiet) {
    fmt::print(stderr, "{}",
               tell("heed: this kernel takes no seccomp filters; the server runs without one\n"));
  }
  // Programs wait for the server's line, which is therefore the same in every language.
  fmt::print(stderr, "{}",
             options.explore ? tell("listening on {}\n", server->url())
                             : fmt::format("listening on {}\n", server->url()));
  std::fflush(stderr);
  notify_systemd("READY=1");
  return run_until_stopped(std::move(server), std::move(access), signals, options.drain);
}

std::function<int()> setup(OptionTable& table, const Common& common, bool explore) {
  auto o = std::make_shared<Options>();
  o->explore = o->open = explore;
  ServeOptions& serve = o->serve;
  serve.port = explore ? 0 : serve.port;
  table
      .add("MODEL", &serve.models, "Model folders, run folders, .gguf or .bin; NAME=PATH names one")
      .file();
  table.add("--models-dir", &serve.models_dir, "Folder of models, each loaded on first use").file();
  table.add("--tokenizer", &serve.tokenizer, "Tokenizer file, for models that have none").file();
  add_adapter(table, serve.adapter);
  table.add("--alias", &serve.aliases,
            "OTHER=NAME: a second name of a model; *=NAME: it answers to any name");
  table
      .add("--index", &serve.indexes,
           "Search index for /v1/search and /v1/ask; NAME=PATH names it; may be given several "
           "times")
      .file();
  table.add("--page", &o->page, "The explorer page at /").choices({"on", "off"});
  if (explore) {
    table.add("--no-browser", &o->no_browser, "Do not show the page in the browser");
  } else {
    table.add("--open", &o->open, "Show the page in the browser");
  }
  table.group("Network");
  table.add("--host", &serve.host, "Address to listen on; any but loopback needs --api-key");
  table.add("--port", &serve.port, "Port; 0 picks a free one").range(0, 65535);
  table.add("--api-key", &serve.api_keys,
            "Key that requests must carry; may be given several times");
  table.add("--api-key-file", &o->api_key_file, "File with one key per line").file();
  table.add("--allow-host", &serve.allowed_hosts,
            "Name that requests may use for this server, such as behind a proxy; * for any");
  table.add("--allow-origin", &serve.allowed_origins, "Origin of web pages that may use the API");
  table.group("Limits");
  table
      .add("--sandbox", &o->sandbox,
           "on: once it listens, the server can open no network connection and run no program")
      .choices({"on", "off"});
  table.add("--max-connections", &serve.max_connections, "Open connections").range(1, 1'000'000);
  table.add("--queue", &serve.queue, "Requests in progress; further ones get 429")
      .range(1, 1'000'000);
  table
      .add("--context", &serve.context,
           "Maximum number of tokens per sequence, prompt and answer together (default: the "
           "model's)")
      .range(1, 1 << 30);
  table
      .add("--max-tokens", &serve.max_tokens,
           "Maximum number of tokens per answer, whatever a client asks for (default: no limit)")
      .range(1, 1 << 30);
  table.add("--slots", &serve.slots, "Sequences of a model that decode together").range(1, 1024);
  add_kv_type(table, o->kv_type);
  table.add("--timeout", &serve.timeout, "Time limit of a request in seconds").range(0.1, 1e6);
  table.add("--header-timeout", &serve.header_timeout, "Seconds for a request's header")
      .range(0.1, 1e6);
  table.add("--body-timeout", &serve.body_timeout, "Seconds for a request's body").range(0.1, 1e6);
  table.add("--max-body", &serve.max_body_bytes, "Bytes of a request's body").range(1024, 1 << 30);
  table
      .add("--idle-unload", &serve.idle_unload,
           "Seconds without use until a model is unloaded; 0: never")
      .range(0, 1e9);
  table.add("--drain", &o->drain, "Seconds for requests to finish after SIGTERM").range(0, 1e6);
  table.group("Log");
  table
      .add("--access-log", &o->access_log, "One JSON object per request to this file; - for stderr")
      .file();
  return [o, &common] { return run(*o, common); };
}

const Registration kServe{
    {"serve",
     "Serve models over HTTP with OpenAI's API",
     {"heed serve run/ --port 8080",
      "heed serve chat=model.gguf minilm/ --host 0.0.0.0 --api-key-file keys.txt"},
     [](OptionTable& table, const Common& common) { return setup(table, common, false); }}};
const Registration kExplore{
    {"explore",
     "Explore models on a page in the browser",
     {"heed explore gpt2/", "heed explore run/ --port 8080"},
     [](OptionTable& table, const Common& common) { return setup(table, common, true); }}};

}  // namespace
}  // namespace heed::app::serve_command
