#include "base/check.h"
#include "heed/tensor.h"

namespace heed {
namespace {

struct Traits {
  DType type;
  std::string_view name;
  int64_t bytes;  // of a block
  int64_t block;  // elements
};
constexpr Traits kTraits[] = {
    {DType::f32, "f32", 4, 1},
    {DType::f64, "f64", 8, 1},
    {DType::f16, "f16", 2, 1},
    {DType::bf16, "bf16", 2, 1},
    {DType::i32, "i32", 4, 1},
    {DType::i64, "i64", 8, 1},
    {DType::u8, "u8", 1, 1},
    {DType::boolean, "bool", 1, 1},
    {DType::q8_0, "q8_0", 34, 32},
    {DType::q4_0, "q4_0", 18, 32},
    {DType::q4_1, "q4_1", 20, 32},
    {DType::q5_0, "q5_0", 22, 32},
    {DType::q5_1, "q5_1", 24, 32},
    {DType::q2_k, "q2_k", 84, 256},
    {DType::q3_k, "q3_k", 110, 256},
    {DType::q4_k, "q4_k", 144, 256},
    {DType::q5_k, "q5_k", 176, 256},
    {DType::q6_k, "q6_k", 210, 256},
    {DType::iq4_nl, "iq4_nl", 18, 32},
    {DType::iq4_xs, "iq4_xs", 136, 256},
    {DType::mxfp4, "mxfp4", 17, 32},
    {DType::iq2_xxs, "iq2_xxs", 66, 256},
    {DType::iq2_xs, "iq2_xs", 74, 256},
    {DType::iq2_s, "iq2_s", 82, 256},
    {DType::iq3_xxs, "iq3_xxs", 98, 256},
    {DType::iq3_s, "iq3_s", 110, 256},
    {DType::iq1_s, "iq1_s", 50, 256},
    {DType::iq1_m, "iq1_m", 56, 256},
    {DType::tq1_0, "tq1_0", 54, 256},
    {DType::tq2_0, "tq2_0", 66, 256},
};
const Traits& traits(DType type) { return kTraits[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name_of(DType type) { return traits(type).name; }

DType dtype_from_name(std::string_view name) {
  for (const Traits& t : kTraits) {
    if (t.name == name) {
      return t.type;
    }
  }
  fail(ErrorKind::usage, "dtype",
       "'{}' is not known; use f32, f64, f16, bf16 or a GGUF block type such as q8_0 or q4_k",
       name);
}

bool is_floating(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}

bool is_quantized(DType type) { return traits(type).block > 1; }

int64_t block_of(DType type) { return traits(type).block; }

int64_t bytes_of(DType type, int64_t count) {
  const Traits& t = traits(type);
  check(count % t.block == 0, "tensor", "{} elements are not a multiple of {}'s block of {}", count,
        t.name, t.block);
  return count / t.block * t.bytes;
}

}  // namespace heed
