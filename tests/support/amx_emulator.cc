#include "support/amx_emulator.h"

#if HEED_EMULATES_AMX
#include <sys/ucontext.h>

#include <cstdint>
#include <cstring>

#include "support/software_tiles.h"

namespace heed::test {
namespace {

/// An instruction with a three-byte VEX prefix and opcodes of the map 0F 38. See Intel's Software
/// Developer's Manual, volume 2, sections 2.3 (VEX) and 2.1.5 (addresses).
class Instruction {
 public:
  explicit Instruction(const mcontext_t& context)
      : registers_(context.gregs), code_(reinterpret_cast<const uint8_t*>(value(REG_RIP))) {}

  bool valid() const { return code_[0] == 0xc4 && (code_[1] & 0x1f) == 2; }
  int opcode() const { return code_[3]; }
  int prefix() const { return code_[2] & 3; }  // 0, 1: 66, 2: F3, 3: F2
  bool names_memory() const { return code_[4] >> 6 != 3; }
  size_t reg() const { return code_[4] >> 3 & 7; }
  size_t rm() const { return code_[4] & 7; }
  size_t vvvv() const { return ~code_[2] >> 3 & 15; }

  /// Bytes of the whole instruction.
  int64_t length() const { return 5 + (has_sib() ? 1 : 0) + displacement_bytes(); }
  /// Base and displacement.
  char* address() const {
    const uint8_t* at = code_ + 5 + (has_sib() ? 1 : 0);
    int64_t displacement = 0;
    if (displacement_bytes() == 1) {
      displacement = static_cast<int8_t>(*at);
    } else if (displacement_bytes() == 4) {
      int32_t word = 0;
      std::memcpy(&word, at, sizeof word);
      displacement = word;
    }
    const size_t base = has_sib() ? code_[5] & 7 : rm();
    int64_t from = 0;
    if (!has_base(base)) {
      from = has_sib() ? 0 : value(REG_RIP) + length();
    } else {
      from = general(base + (extended(5) ? 8 : 0));
    }
    return reinterpret_cast<char*>(from + displacement);
  }
  /// The scaled index, which is the distance of a tile's rows.
  int64_t stride() const {
    const size_t index = (code_[5] >> 3 & 7) + (extended(6) ? 8 : 0);
    return index == 4 ? 0 : general(index) << (code_[5] >> 6);
  }

 private:
  bool extended(int bit) const { return (code_[1] >> bit & 1) == 0; }
  bool has_sib() const { return names_memory() && rm() == 4; }
  /// 101 without a displacement's size in `mod` stands for 32 bits without a base.
  bool has_base(size_t base) const { return code_[4] >> 6 != 0 || base != 5; }
  int displacement_bytes() const {
    const int mod = code_[4] >> 6;
    const size_t base = has_sib() ? code_[5] & 7 : rm();
    return mod == 1 ? 1 : mod == 2 || (mod == 0 && !has_base(base)) ? 4 : 0;
  }
  int64_t value(int name) const { return registers_[name]; }
  int64_t general(size_t number) const {
    static constexpr int kNames[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                       REG_R12, REG_R13, REG_R14, REG_R15};
    return value(kNames[number]);
  }

  const gregset_t& registers_;
  const uint8_t* code_;
};

bool carry_out(const Instruction& it) {
  enum { tile_state = 0x49, tile_memory = 0x4b, dot_bf16 = 0x5c };
  enum { plain = 0, f3 = 2, f2 = 3 };
  if (!it.valid()) {
    return false;
  }
  if (it.opcode() == tile_state && it.prefix() == plain && it.names_memory()) {
    kernels::TileShapes shapes;
    std::memcpy(&shapes, it.address(), sizeof shapes);
    SoftwareTiles::configure(shapes);
  } else if (it.opcode() == tile_state && it.prefix() == plain) {
    SoftwareTiles::release();
  } else if (it.opcode() == tile_state && it.prefix() == f2) {
    SoftwareTiles::zero_tile(it.reg());
  } else if (it.opcode() == tile_memory && it.prefix() == f2) {
    SoftwareTiles::load_tile(it.reg(), it.address(), it.stride());
  } else if (it.opcode() == tile_memory && it.prefix() == f3) {
    SoftwareTiles::store_tile(it.reg(), it.address(), it.stride());
  } else if (it.opcode() == dot_bf16 && it.prefix() == f3) {
    SoftwareTiles::dot_tiles(it.reg(), it.rm(), it.vvvv());
  } else {
    return false;
  }
  return true;
}

void handle(int signal, siginfo_t* /*info*/, void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  const Instruction instruction(machine);
  if (carry_out(instruction)) {
    machine.gregs[REG_RIP] += instruction.length();
  } else {
    std::signal(signal, SIG_DFL);  // happens again, and ends the process
  }
}

}  // namespace

AmxEmulator::AmxEmulator() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before_);
}

AmxEmulator::~AmxEmulator() { sigaction(SIGILL, &before_, nullptr); }

}  // namespace heed::test
#endif
