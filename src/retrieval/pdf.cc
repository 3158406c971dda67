#include "retrieval/pdf.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"

extern char** environ;

namespace heed {
namespace {

/// A pdftotext that is running, and the end of the pipe its text comes from.
class PdfToText {
 public:
  explicit PdfToText(const std::string& path) : path_(path) {
    int ends[2];
    check(pipe2(ends, O_CLOEXEC) == 0, path, "cannot make a pipe: {}", std::strerror(errno));
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // An absolute path: no name of a file can be taken for an option.
    std::string program = "pdftotext", encoding = "-enc", utf8 = "UTF-8", name = path, out = "-";
    char* arguments[] = {program.data(), encoding.data(), utf8.data(),
                         name.data(),    out.data(),      nullptr};
    const int failed = posix_spawnp(&process_, "pdftotext", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed != 0) {
      close(output_);
      fail(ErrorKind::data, path,
           "PDF needs the program pdftotext (Debian: apt install poppler-utils)");
    }
  }
  ~PdfToText() {
    close(output_);
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  PdfToText(const PdfToText&) = delete;
  PdfToText& operator=(const PdfToText&) = delete;

  std::string read_all(int64_t max_bytes) {
    std::string text;
    char buffer[1 << 16];
    for (;;) {
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
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    check_data(WIFEXITED(status) && WEXITSTATUS(status) == 0, path_,
               "pdftotext cannot read it; is it a PDF without a password?");
    return text;
  }

 private:
  std::string path_;
  pid_t process_ = -1;
  int output_ = -1;
};

}  // namespace

void read_pdf(const std::filesystem::path& path, int64_t max_bytes,
              const std::function<void(Section)>& visit) {
  const std::string text = PdfToText(std::filesystem::absolute(path)).read_all(max_bytes);
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
