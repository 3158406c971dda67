#include "serve/sandbox.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

namespace heed::test {
namespace {

/// Runs `body` in a process of its own, where the filter may be set, and gives its exit code.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kNoFilters = 77;

TEST(Sandbox, NoNetworkSocketsAndNoPrograms) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "thread sanitizer: a forked child starts a thread that has the id of an old one";
#endif
  const int code = in_child([] {
    const int before = socket(AF_INET, SOCK_STREAM, 0);
    int other_thread = 0;
    std::atomic<bool> filtered{false};
    std::thread waiting([&] {  // the filter holds for threads that were there before it
      while (!filtered) {
        usleep(1000);
      }
      other_thread = socket(AF_INET6, SOCK_STREAM, 0) < 0 && errno == EACCES ? 1 : 0;
    });
    if (!serve::forbid_outbound_connections()) {
      filtered = true;
      waiting.join();
      return kNoFilters;
    }
    filtered = true;
    waiting.join();
    if (other_thread != 1) {
      return 2;
    }
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EACCES) {
      return 3;
    }
    if (socket(AF_UNIX, SOCK_DGRAM, 0) < 0) {
      return 4;
    }
    if (before < 0 || listen(before, 1) != 0) {  // what is open goes on
      return 5;
    }
    char* const arguments[] = {const_cast<char*>("true"), nullptr};
    execv("/bin/true", arguments);
    return errno == EACCES ? 0 : 6;
  });
  if (code == kNoFilters) {
    GTEST_SKIP() << "this kernel takes no seccomp filters";
  }
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace heed::test
