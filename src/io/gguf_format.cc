#include "io/gguf_format.h"

#include "base/check.h"
#include "base/text.h"

namespace heed::gguf {
namespace {

struct TensorType {
  uint32_t number;
  DType type;
};
constexpr TensorType kTensorTypes[] = {
    {0, DType::f32},  {1, DType::f16},  {2, DType::q4_0}, {8, DType::q8_0},
    {26, DType::i32}, {27, DType::i64}, {28, DType::f64}, {30, DType::bf16},
};

struct ForeignType {
  uint32_t number;
  std::string_view name;
};
/// ggml's types that heed has no kernels for, so that an error can name them.
constexpr ForeignType kForeignTypes[] = {
    {3, "Q4_1"},     {6, "Q5_0"},   {7, "Q5_1"},    {9, "Q8_1"},   {10, "Q2_K"},    {11, "Q3_K"},
    {12, "Q4_K"},    {13, "Q5_K"},  {14, "Q6_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
    {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"},
    {24, "I8"},      {25, "I16"},   {29, "IQ1_M"},  {34, "TQ1_0"}, {35, "TQ2_0"},   {39, "MXFP4"},
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
               "tensor {} is {}, which heed does not compute with; convert the model to F32, F16, "
               "BF16, Q8_0 or Q4_0",
               quote(tensor), foreign.name);
  }
  fail(ErrorKind::data, file, "tensor {} has unknown type {}", quote(tensor), type);
}

}  // namespace heed::gguf
