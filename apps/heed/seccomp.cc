#include "heed/seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace heed::app {
namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned kArchitecture = 0;
#endif

constexpr unsigned kNumber = offsetof(seccomp_data, nr);
constexpr unsigned kArch = offsetof(seccomp_data, arch);
constexpr unsigned kFirst =
    offsetof(seccomp_data, args);  // the low half, on little-endian machines
constexpr unsigned kRefuse = SECCOMP_RET_ERRNO | EPERM;

sock_filter load(unsigned offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter leave(unsigned action) { return BPF_STMT(BPF_RET | BPF_K, action); }
/// Goes on with the next instruction where the value is `k`, else skips one.
sock_filter unless(unsigned k) { return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1); }

std::vector<sock_filter> filter() {
  // Another architecture's calls have other numbers: none of them is allowed.
  std::vector<sock_filter> program{load(kArch),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                                   leave(kRefuse), load(kNumber)};
#if defined(__x86_64__)
  // The x32 calls of the same architecture.
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
  program.push_back(leave(kRefuse));
#endif
  for (const long call :
       {SYS_connect, SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_writev}) {
    program.push_back(unless(static_cast<unsigned>(call)));
    program.push_back(leave(kRefuse));
  }
  // socket(): only for this machine (systemd's notifications).
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(SYS_socket), 0, 3));
  program.push_back(load(kFirst));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0));
  program.push_back(leave(kRefuse));
  program.push_back(leave(SECCOMP_RET_ALLOW));
  return program;
}

}  // namespace

bool forbid_outbound_connections() {
  if (kArchitecture == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return false;
  }
  std::vector<sock_filter> program = filter();
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) == 0;
}

}  // namespace heed::app
