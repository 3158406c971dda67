#include "serve/sandbox.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heed::serve {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

constexpr uint32_t kX32 = 0x40000000;  // x86-64's calls under other numbers
constexpr uint32_t kDeny = SECCOMP_RET_ERRNO | EACCES;

sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter leave(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
/// Skips `count` statements unless the loaded number is `value`.
sock_filter unless(uint32_t value, uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}

std::vector<sock_filter> make_filter() {
  std::vector<sock_filter> filter = {
      load(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      leave(kDeny),
      load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1),
      leave(kDeny),
  };
  // io_uring opens sockets without the call that is filtered.
  constexpr uint32_t kIoUringSetup = 425;
  constexpr uint32_t kCalls[] = {SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_writev,
                                 kIoUringSetup};
  for (const uint32_t call : kCalls) {
    filter.push_back(unless(call, 1));
    filter.push_back(leave(kDeny));
  }
  filter.push_back(unless(SYS_socket, 3));
  filter.push_back(load(offsetof(seccomp_data, args)));  // the low half, on little-endian machines
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0));
  filter.push_back(leave(kDeny));
  filter.push_back(leave(SECCOMP_RET_ALLOW));
  return filter;
}

}  // namespace

bool forbid_outbound_connections() {
  if (kArchitecture == 0) {
    return false;
  }
  std::vector<sock_filter> filter = make_filter();
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

}  // namespace heed::serve
