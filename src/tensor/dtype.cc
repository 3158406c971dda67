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
    {DType::f32, "f32", 4, 1},     {DType::f64, "f64", 8, 1},      {DType::f16, "f16", 2, 1},
    {DType::bf16, "bf16", 2, 1},   {DType::i32, "i32", 4, 1},      {DType::i64, "i64", 8, 1},
    {DType::u8, "u8", 1, 1},       {DType::boolean, "bool", 1, 1}, {DType::q8_0, "q8_0", 34, 32},
    {DType::q4_0, "q4_0", 18, 32},
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
  fail(ErrorKind::usage, "dtype", "'{}' is not known; use f32, f64, f16, bf16, q8_0 or q4_0", name);
}

bool is_floating(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}

bool is_quantized(DType type) { return traits(type).block > 1; }

int64_t bytes_of(DType type, int64_t count) {
  const Traits& t = traits(type);
  check(count % t.block == 0, "tensor", "{} elements are no multiple of {}'s block of {}", count,
        t.name, t.block);
  return count / t.block * t.bytes;
}

}  // namespace heed
