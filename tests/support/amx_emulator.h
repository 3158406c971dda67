#pragma once

#if defined(__x86_64__) && defined(__linux__)
#include <csignal>
#define HEED_EMULATES_AMX 1
#else
#define HEED_EMULATES_AMX 0
#endif

namespace heed::test {

#if HEED_EMULATES_AMX

/// While one lives, AMX instructions that this processor does not know are carried out by
/// SoftwareTiles, on every thread: each raises SIGILL, whose handler decodes it. So the machine
/// code of kernels/amx.cc runs without AMX.
class AmxEmulator {
 public:
  AmxEmulator();
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

 private:
  struct sigaction before_ {};
};

#else

struct AmxEmulator {};

#endif

}  // namespace heed::test
