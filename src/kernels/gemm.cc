#include "kernels/gemm.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/amx.h"
#include "kernels/arm_bf16.h"
#include "kernels/quantize.h"
#include "kernels/quantized_gemm.h"
#include "kernels/weight_order.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm_in_place-inl.h"
#include "kernels/gemm_lanes-inl.h"
#include "kernels/gemm_rows-inl.h"
#include "kernels/gemm_tile_unit-inl.h"
#include "kernels/gemm_tiles-inl.h"
#include "kernels/packed_weights.h"

// How it works. A and B are copied into panels, in the compute type and cut into equal blocks of at
// most kPanelDepth along k: [block][depth][kRows] of A, [block][depth][columns()] of B. The
// micro-kernel holds a kRows × columns() piece of C in registers. The smaller operand is packed for
// all, a block of k at a time, and stays in L3; C is cut along the larger one into strips that
// threads claim, and a strip packs its own part of it into L2, where nobody else wants it. Between
// two blocks of k the piece of C is stored and loaded again, which changes no bit: the sum over k
// is one chain. The epilogue runs piece by piece, while a piece is in L1.
//
// Where A stays in L2, neither it nor rows of B are packed: kernels/gemm_in_place-inl.h.
// With few rows (decoding) the time goes into reading B: see kernels/gemm_rows-inl.h. 16-bit
// weights that lie along k have an order of their own: kernels/gemm_lanes-inl.h. Where A is bf16,
// panels hold pairs of bf16 if the machine multiplies those: kernels/gemm_bf16-inl.h; with AMX
// tiles or ARM's BFMMLA they have a product of their own: kernels/gemm_tile_unit-inl.h,
// kernels/gemm_bfmmla-inl.h. Panels of a weight may have been made beforehand
// (kernels/packed_weights.h); then they are read as they lie.

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void run(const Job<T>& job) {
  if constexpr (std::is_same_v<T, float>) {
    if (job.b.interleaved != nullptr) {
      many_rows<Plain<T>>(job);
      return;
    }
    if (takes_lanes(job)) {
      lane_product(job);
      return;
    }
    const bool in_place = takes_in_place(job);
    if (takes_few_rows(job) && !(in_place && prefers_in_place(job))) {
      few_rows(job);
      return;
    }
    if (in_place) {
      in_place_product(job);
      return;
    }
  }
  many_rows<Plain<T>>(job);
}

void gemm_f32(const GemmProblem& problem) { run(Job<float>(problem)); }
void gemm_bf16(const GemmProblem& problem, bool instructions, const TileUnit* unit) {
  bf16_product(Job<float>(problem), instructions, unit);
}
void gemm_f64(const GemmProblem& problem) { run(Job<double>(problem)); }
bool multiplies_pairs() { return HEED_BF16_INSTRUCTIONS; }

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(gemm_f32);
HWY_EXPORT(gemm_f64);
HWY_EXPORT(gemm_bf16);
HWY_EXPORT(multiplies_pairs);

namespace {

int64_t bytes_of(Element type, int64_t count) {
  if (is_quantized(type)) {
    const BlockSize block = block_size(type);
    return count / block.weights * block.bytes;
  }
  return count * element_size(type);
}

/// Whether the CPU has them and the kernels in use were compiled with them: those for AVX2 have
/// nothing for pairs, whatever the CPU can do.
bool has_bf16_instructions() {
#if HWY_ARCH_X86
  return __builtin_cpu_supports("avx512bf16") != 0 && HWY_DYNAMIC_DISPATCH(multiplies_pairs)();
#else
  return false;
#endif
}

std::atomic<bool> bf16_wanted{true};

/// The product of a self-check: whole numbers, with edges in every dimension.
std::vector<float> check_product(bool instructions, const TileUnit* unit) {
  constexpr int64_t kM = 45, kN = 83, kK = 77;
  uint32_t state = 1;
  const auto number = [&state] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 28) - 8.0f;
  };
  std::vector<BFloat16> a(kM * kK), b(kK * kN);
  for (std::vector<BFloat16>* each : {&a, &b}) {
    for (BFloat16& element : *each) {
      element = to_bfloat16(number());
    }
  }
  std::vector<float> c(kM * kN, 3.0f);
  const SingleThreadedScope alone;
  HWY_DYNAMIC_DISPATCH(gemm_bf16)
  ({.m = kM,
    .n = kN,
    .k = kK,
    .a = {a.data(), Element::bf16, kK, 1},
    .b = {b.data(), Element::bf16, kN, 1},
    .c = c.data(),
    .c_stride = kN,
    .accumulate = true},
   instructions, unit);
  return c;
}

AmxState checked_amx() {
  const AmxState state = has_bf16_instructions() ? request_amx() : AmxState::absent;
  return state == AmxState::in_use && !computes_correctly(*amx_tiles()) ? AmxState::wrong : state;
}

std::atomic<const TileUnit*>& tile_unit() {
  static std::atomic<const TileUnit*> unit{amx_state() == AmxState::in_use ? amx_tiles() : nullptr};
  return unit;
}

ArmBf16State checked_arm_bf16() {
#if HWY_ARCH_ARM_A64 && defined(__linux__)
  constexpr unsigned long kHasBf16 = 1ul << 14;  // HWCAP2_BF16
  if ((getauxval(AT_HWCAP2) & kHasBf16) == 0) {
    return ArmBf16State::absent;
  }
  const char* value = std::getenv("HEED_ARM_BF16");
  if (value != nullptr && std::string_view(value) == "off") {
    return ArmBf16State::switched_off;
  }
  return check_product(true, nullptr) == check_product(false, nullptr) ? ArmBf16State::in_use
                                                                       : ArmBf16State::wrong;
#else
  return ArmBf16State::absent;
#endif
}

std::atomic<bool>& arm_bf16() {
  static std::atomic<bool> use{arm_bf16_state() == ArmBf16State::in_use};
  return use;
}

/// A new result has no pages yet, and strips of columns touch all of them at once: one tile that
/// nobody can stop while the system clears gigabytes. So large ones are touched part by part
/// before.
void touch_result(const GemmProblem& problem) {
  constexpr int64_t kLarge = int64_t{64} << 20;
  constexpr int64_t kPart = int64_t{4} << 20;
  constexpr int64_t kPage = 4096;
  const int64_t bytes = problem.m * problem.n * element_size(problem.c_type);
  if (bytes < kLarge || problem.accumulate || problem.c_stride != problem.n ||
      problem.epilogue.residual != nullptr) {
    return;
  }
  auto* data = static_cast<char*>(problem.c);
  parallel_for((bytes + kPart - 1) / kPart, [&](int64_t part) {
    const int64_t end = std::min(bytes, (part + 1) * kPart);
    for (int64_t at = part * kPart; at < end; at += kPage) {
      data[at] = 0;
    }
  });
}

}  // namespace

AmxState amx_state() {
  static const AmxState state = checked_amx();
  return state;
}

ArmBf16State arm_bf16_state() {
  static const ArmBf16State state = checked_arm_bf16();
  return state;
}

bool computes_correctly(const TileUnit& unit) {
  return check_product(true, &unit) == check_product(true, nullptr);
}

void use_tile_unit(const TileUnit* unit) { tile_unit().store(unit); }

void use_bf16_instructions(bool wanted) { bf16_wanted.store(wanted); }

bool uses_bf16_instructions() { return bf16_wanted.load() && has_bf16_instructions(); }

void use_arm_bf16(bool wanted) {
  arm_bf16().store(wanted && arm_bf16_state() == ArmBf16State::in_use);
}

bool uses_arm_bf16() { return arm_bf16().load(); }

void gemm(const GemmProblem& problem) {
  const int64_t m = problem.m;
  const int64_t n = problem.n;
  const int64_t k = problem.k;
  const Matrix& b = problem.b;
  if (m == 0 || n == 0) {
    return;
  }
  std::optional<SingleThreadedScope> alone;
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= kSmallProduct) {
    alone.emplace();
  }
  touch_result(problem);
  if (b.interleaved != nullptr && !is_quantized(b.type) && !reads_packed(problem.a.type, b.type)) {
    GemmProblem other = problem;
    other.b.interleaved = nullptr;
    gemm(other);
    return;
  }
  constexpr int64_t kDecoding = 32;  // rows
  if (m <= kDecoding && !inside_parallel()) {
    thread_local WeightOrder order;
    order.pass(b.interleaved != nullptr ? b.interleaved : b.data, bytes_of(b.type, n * k));
  }
  if (is_quantized(b.type)) {
    quantized_gemm(problem);
  } else if (problem.a.type == Element::bf16) {
    HWY_DYNAMIC_DISPATCH(gemm_bf16)
    (problem, uses_bf16_instructions() || uses_arm_bf16(), tile_unit().load());
  } else if (problem.c_type == Element::f64) {
    HWY_DYNAMIC_DISPATCH(gemm_f64)(problem);
  } else {
    HWY_DYNAMIC_DISPATCH(gemm_f32)(problem);
  }
}

}  // namespace heed::kernels
#endif
