#include "io/gguf_format.h"

#include "base/check.h"
#include "base/utf8.h"

namespace heed::gguf {
namespace {

struct TensorType {
  uint32_t number;
  DType type;
};
constexpr TensorType kTensorTypes[] = {
    {0, DType::f32},      {1, DType::f16},     {2, DType::q4_0},     {3, DType::q4_1},
    {6, DType::q5_0},     {7, DType::q5_1},    {8, DType::q8_0},     {10, DType::q2_k},
    {11, DType::q3_k},    {12, DType::q4_k},   {13, DType::q5_k},    {14, DType::q6_k},
    {16, DType::iq2_xxs}, {17, DType::iq2_xs}, {18, DType::iq3_xxs}, {19, DType::iq1_s},
    {20, DType::iq4_nl},  {21, DType::iq3_s},  {22, DType::iq2_s},   {23, DType::iq4_xs},
    {26, DType::i32},     {27, DType::i64},    {28, DType::f64},     {29, DType::iq1_m},
    {30, DType::bf16},    {34, DType::tq1_0},  {35, DType::tq2_0},   {39, DType::mxfp4},
};

struct ForeignType {
  uint32_t number;
  std::string_view name;
};
/// ggml's types that heed does not read, so that an error can name them.
constexpr ForeignType kForeignTypes[] = {
    {9, "Q8_1"}, {15, "Q8_K"}, {24, "I8"}, {25, "I16"}, {40, "NVFP4"}, {41, "Q1_0"},
};

}  // namespace

uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    default:
      return 0;
  }
}

uint32_t tensor_type_of(DType type) {
  for (const TensorType& known : kTensorTypes) {
    if (known.type == type) {
      return known.number;
    }
  }
  fail(ErrorKind::usage, "gguf", "cannot hold {} tensors", name_of(type));
}

DType dtype_of(uint32_t type, const std::string& file, const std::string& tensor) {
  for (const TensorType& known : kTensorTypes) {
    if (known.number == type) {
      return known.type;
    }
  }
  for (const ForeignType& foreign : kForeignTypes) {
    check_data(foreign.number != type, file,
               "tensor {} is {}, which heed does not read; convert the model to F16, BF16, Q8_0 "
               "or Q4_K",
               quote(tensor), foreign.name);
  }
  fail(ErrorKind::data, file, "tensor {} has unknown type {}", quote(tensor), type);
}

}  // namespace heed::gguf
