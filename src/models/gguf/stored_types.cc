#include "models/gguf/stored_types.h"

#include <charconv>

#include "base/check.h"
#include "base/utf8.h"
#include "heed/ops.h"
#include "io/gguf.h"

namespace heed::gguf {
namespace {

struct FileType {
  std::string_view name;
  uint32_t number;  // general.file_type
  DType type;
  bool mixture = false;
};
constexpr FileType kFileTypes[] = {
    {"f32", 0, DType::f32},        {"f16", 1, DType::f16},
    {"bf16", 32, DType::bf16},     {"q8_0", 7, DType::q8_0},
    {"q4_0", 2, DType::q4_0},      {"q4_1", 3, DType::q4_1},
    {"q5_0", 8, DType::q5_0},      {"q5_1", 9, DType::q5_1},
    {"q2_k", 10, DType::q2_k},     {"q3_k", 11, DType::q3_k},
    {"q4_k_s", 14, DType::q4_k},   {"q4_k_m", 15, DType::q4_k, true},
    {"q5_k_s", 16, DType::q5_k},   {"q5_k_m", 17, DType::q5_k, true},
    {"q6_k", 18, DType::q6_k},     {"iq4_nl", 25, DType::iq4_nl},
    {"iq4_xs", 30, DType::iq4_xs},
};

struct Fallback {
  DType type;
  DType instead;
};
constexpr Fallback kFallbacks[] = {
    {DType::q2_k, DType::q4_0}, {DType::q3_k, DType::q4_0}, {DType::q4_k, DType::q5_0},
    {DType::q5_k, DType::q5_1}, {DType::q6_k, DType::q8_0}, {DType::iq4_xs, DType::iq4_nl},
};

/// Tables that are small and read by everybody else as f32.
bool stays_f32(std::string_view name, const Tensor& tensor) {
  return tensor.rank() < 2 || name == "position_embd.weight" || name == "token_types.weight" ||
         name.ends_with(".attn_rel_b.weight");
}

/// N of "blk.N.attn_v.weight" and of "dec.blk.N.attn_v.weight"; −1 where the tensor belongs to no
/// layer.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  int64_t layer = -1;
  if (const size_t at = name.find(kPrefix); at != std::string_view::npos) {
    std::from_chars(name.data() + at + kPrefix.size(), name.data() + name.size(), layer);
  }
  return layer;
}

/// The layers that get more bits: the first and last eighth, and every third between.
bool wants_more_bits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

bool is_k_quant(DType type) {
  return type == DType::q2_k || type == DType::q3_k || type == DType::q4_k || type == DType::q5_k ||
         type == DType::iq4_xs;
}

}  // namespace

DType fitting_type(DType type, int64_t columns) {
  for (const Fallback& fallback : kFallbacks) {
    if (type == fallback.type && columns % block_of(type) != 0) {
      type = fallback.instead;
      break;
    }
  }
  return columns % block_of(type) == 0 ? type : DType::f16;
}

Importance read_importance(const std::filesystem::path& path) {
  const GgufFile file(path);
  check_data(file.string_or("general.type", "") == "imatrix", file.file(),
             "is not an importance matrix: general.type is not 'imatrix'");
  constexpr std::string_view kSums = ".in_sum2";
  Importance importance;
  for (const auto& [name, sums] : file.tensors()) {
    if (!name.ends_with(kSums)) {
      continue;
    }
    const std::string tensor = name.substr(0, name.size() - kSums.size());
    const auto counts = file.tensors().find(tensor + ".counts");
    check_data(counts != file.tensors().end(), file.file(), "tensor {} has no counts", quote(name));
    check_data(sums.dtype() == DType::f32 && counts->second.dtype() == DType::f32 &&
                   sums.rank() >= 1 && sums.numel() == sums.size(-1) && counts->second.numel() == 1,
               file.file(), "tensor {} {} is not one row of f32 with one count", quote(name),
               sums.shape());
    const float count = counts->second.data<float>()[0];
    std::vector<float> means = sums.to_vector<float>();
    bool usable = count > 0.0f;
    for (float& mean : means) {
      mean /= count;
      usable = usable && mean >= 0.0f && mean <= 1e30f;
    }
    check_data(usable, file.file(), "tensor {} has sums or counts that are negative or not finite",
               quote(name));
    importance.emplace(tensor, Tensor::from(means, {sums.numel()}));
  }
  check_data(!importance.empty(), file.file(), "holds no '<tensor>.in_sum2'");
  return importance;
}

std::vector<std::string> StoredTypes::names() {
  std::vector<std::string> names;
  for (const FileType& each : kFileTypes) {
    names.emplace_back(each.name);
  }
  return names;
}

StoredTypes StoredTypes::named(std::string_view name) {
  for (const FileType& each : kFileTypes) {
    if (each.name == name) {
      StoredTypes types(each.type);
      types.mixture_ = each.mixture;
      return types;
    }
  }
  fail(ErrorKind::usage, "gguf", "cannot write weights in '{}'; use one of {}", name,
       fmt::join(names(), ", "));
}

StoredTypes::StoredTypes(DType type) : type_(type) {}

uint32_t StoredTypes::file_type(const Model& model) const {
  for (const FileType& each : kFileTypes) {
    if (each.name == name(model)) {
      return each.number;
    }
  }
  return 1024;  // ggml's mark of a type that no number says
}

std::string StoredTypes::name(const Model& model) const {
  std::map<DType, int64_t> weights;
  DType most = type_.value_or(DType::f32);
  for (const Parameter& parameter : model.parameters()) {
    if (!type_ && parameter.tensor.rank() >= 2) {
      const DType type = parameter.tensor.dtype();
      weights[type] += parameter.tensor.numel();
      most = weights[type] >= weights[most] ? type : most;
    }
  }
  for (const FileType& each : kFileTypes) {
    if (each.type == most && each.mixture == mixture_) {
      return std::string(each.name);
    }
  }
  return std::string(name_of(most));
}

DType StoredTypes::type_of(std::string_view name, const Tensor& tensor, int64_t layers,
                           bool tied) const {
  if (stays_f32(name, tensor)) {
    return DType::f32;
  }
  DType type = type_.value_or(tensor.dtype());
  if (!type_) {
    return type;
  }
  const bool is_output = name == "output.weight" || (tied && name == "token_embd.weight");
  if (is_output && is_k_quant(type)) {
    type = DType::q6_k;
  } else if (mixture_) {
    const int64_t layer = layer_of(name);
    const bool matters = name.ends_with("attn_v.weight") || name.ends_with("ffn_down.weight");
    if (name.ends_with("attn_qkv.weight")) {
      type = type == DType::q4_k ? DType::q5_k : DType::q6_k;
    } else if (matters && wants_more_bits(layer, layers)) {
      type = DType::q6_k;
    }
  }
  return fitting_type(type, tensor.size(-1));
}

Tensor StoredTypes::stored(std::string_view name, const Tensor& tensor, int64_t layers,
                           bool tied) const {
  const DType type = type_of(name, tensor, layers, tied);
  if (tensor.dtype() == type) {
    return tensor.contiguous();
  }
  const Tensor values = dequantize(tensor).contiguous();
  if (!is_quantized(type)) {
    return values.to(type);
  }
  const auto found = importance_.find(name);
  if (found == importance_.end()) {
    return quantize(values, type);
  }
  check(found->second.numel() == values.size(-1), "gguf",
        "the importance of tensor {} has {} columns, the tensor has {}", quote(name),
        found->second.numel(), values.size(-1));
  return quantize(values, type, found->second);
}

}  // namespace heed::gguf
