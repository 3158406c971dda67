#include "kernels/amx.h"

#include <cstdlib>
#include <string_view>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define HEED_AMX 1
#else
#define HEED_AMX 0
#endif

namespace heed::kernels {

#if HEED_AMX

namespace {

/// The instructions as the assembler knows them: the compiler is told nothing of tiles and keeps
/// none of its own.
struct AmxTiles {
  static void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  static void release() { asm volatile("tilerelease"); }

  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  static void load(const void* from, int64_t bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(bytes), "i"(tile) : "memory");
  }
  template <int tile>
  static void store(void* to, int64_t bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(bytes), "i"(tile) : "memory");
  }
  template <int sum, int a, int b>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
  }
};

struct Cpuid {
  Cpuid(unsigned leaf, unsigned subleaf)
      : valid(__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d)) {}
  unsigned a = 0, b = 0, c = 0, d = 0;
  int valid;
};

bool has(unsigned word, int bit) { return (word >> bit & 1) != 0; }

/// Whether the CPU has AMX-TILE and AMX-BF16, tiles are those of palette 1, and the system saves
/// them.
bool has_amx() {
  const Cpuid basic(1, 0);
  if (!has(basic.c, 27)) {  // XGETBV
    return false;
  }
  const Cpuid features(7, 0);
  if (!has(features.d, 22) || !has(features.d, 24)) {
    return false;
  }
  const Cpuid palette(0x1d, 1);
  const bool tiles = (palette.b & 0xffff) == 64 && palette.b >> 16 >= 8 &&
                     (palette.c & 0xffff) >= static_cast<unsigned>(kTileSide);
  unsigned saved = 0, upper = 0;
  asm volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
  return tiles && has(saved, 17) && has(saved, 18);
}

/// Linux gives a process the tiles' 8 KiB of state on demand.
bool permitted() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool switched_off() {
  const char* value = std::getenv("HEED_AMX");
  return value != nullptr && std::string_view(value) == "off";
}

AmxState find_amx() {
  if (!has_amx()) {
    return AmxState::absent;
  }
  if (switched_off()) {
    return AmxState::switched_off;
  }
  return permitted() ? AmxState::in_use : AmxState::not_permitted;
}

}  // namespace

AmxState request_amx() {
  static const AmxState state = find_amx();
  return state;
}

const TileUnit* amx_tiles() { return &kTileUnit<AmxTiles>; }

#else

AmxState request_amx() { return AmxState::absent; }
const TileUnit* amx_tiles() { return nullptr; }

#endif

}  // namespace heed::kernels
