#include "retrieval/pdf.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/utf8.h"

extern char** environ;

namespace heed {
namespace {

/// A pdftotext that is running, and the end of the pipe its text comes from. A PDF may make it
/// compute or allocate without end: time, processor time and memory are limited.
class PdfToText {
 public:
  PdfToText(const std::string& path, double seconds)
      : path_(path), seconds_(seconds), deadline_(seconds_now() + seconds) {
    int ends[2];
    check(pipe2(ends, O_CLOEXEC) == 0, path, "cannot make a pipe: {}", std::strerror(errno));
    output_ = ends[0];
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // what it starts ends with it
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // An absolute path: no name of a file can be taken for an option.
    std::string program = "pdftotext", encoding = "-enc", utf8 = "UTF-8", name = path, out = "-";
    char* arguments[] = {program.data(), encoding.data(), utf8.data(),
                         name.data(),    out.data(),      nullptr};
    const int failed =
        posix_spawnp(&process_, "pdftotext", &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (failed != 0) {
      close(output_);
      fail(ErrorKind::data, path,
           "PDF needs the program pdftotext (Debian: apt install poppler-utils)");
    }
    constexpr rlim_t kMostBytes = rlim_t{2} << 30;
    limit(RLIMIT_CPU, static_cast<rlim_t>(std::ceil(seconds)));
    limit(RLIMIT_AS, kMostBytes);
  }
  ~PdfToText() {
    close(output_);
    if (process_ > 0) {
      kill(-process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  PdfToText(const PdfToText&) = delete;
  PdfToText& operator=(const PdfToText&) = delete;

  std::string read_all(int64_t max_bytes) {
    std::string text;
    char buffer[1 << 16];
    for (;;) {
      wait_for_text();
      const ssize_t got = read(output_, buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      check(got >= 0, path_, "cannot be read: {}", std::strerror(errno));
      if (got == 0) {
        break;
      }
      text.append(buffer, static_cast<size_t>(got));
      check_data(static_cast<int64_t>(text.size()) <= max_bytes, path_,
                 "has more than {} MB of text, the limit", max_bytes >> 20);
    }
    const int status = wait_for_end();
    check_data(WIFEXITED(status) && WEXITSTATUS(status) == 0, path_,
               "pdftotext cannot read it; is it a PDF without a password?");
    return text;
  }

 private:
  void limit(decltype(RLIMIT_CPU) which, rlim_t value) const {
    rlimit limits{};
    if (prlimit(process_, which, nullptr, &limits) == 0) {
      limits.rlim_cur = std::min(limits.rlim_max, value);
      prlimit(process_, which, &limits, nullptr);
    }
  }

  /// Milliseconds until the deadline. Throws once it is over.
  int time_left() const {
    const double left = deadline_ - seconds_now();
    check_data(left > 0, path_, "pdftotext did not finish within {} seconds", seconds_);
    return static_cast<int>(std::ceil(left * 1000));
  }

  /// Returns when there is text, or the end of it.
  void wait_for_text() const {
    pollfd waiting{output_, POLLIN, 0};
    while (poll(&waiting, 1, time_left()) <= 0) {
    }
  }

  /// The status of the process, which may go on after the end of its text.
  int wait_for_end() {
    constexpr useconds_t kPause = 1000;
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(process_, &status, WNOHANG)) == 0) {
      time_left();
      usleep(kPause);
    }
    check(ended == process_, path_, "cannot be read: {}", std::strerror(errno));
    process_ = -1;
    return status;
  }

  std::string path_;
  double seconds_;
  double deadline_;
  pid_t process_ = -1;
  int output_ = -1;
};

}  // namespace

void read_pdf(const std::filesystem::path& path, const DocumentLimits& limits,
              const std::function<void(Section)>& visit) {
  const std::string text =
      PdfToText(std::filesystem::absolute(path), limits.pdf_seconds).read_all(limits.max_bytes);
  check_data(is_valid_utf8(text), path.native(), "pdftotext gave text that is not UTF-8");
  int64_t page = 0;
  bool any = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\f', begin), text.size());
    ++page;
    std::string part = text.substr(begin, end - begin);
    if (part.find_first_not_of(" \t\r\n") != std::string::npos) {
      any = true;
      visit({"", std::move(part), fmt::format("page {}", page)});
    }
    begin = end + 1;
  }
  check_data(any, path.native(), "has no text (a scan?); text recognition is not part of heed");
}

}  // namespace heed
