#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "generate/prefixes.h"
#include "heed/io.h"
#include "heed/ops.h"

// Keys and values on disk: docs/formats/prompt-cache.md.

namespace heed {
namespace {

constexpr const char* kFormat = "heed-prompt-cache-1";

/// Of a tensor's bytes: all of a small one, samples over the whole of a large one.
uint64_t fingerprint_of_tensor(const Tensor& tensor, uint64_t seed) {
  constexpr int64_t kWhole = 1 << 16;
  constexpr int64_t kSamples = 64;
  constexpr int64_t kSample = 256;
  // A quantised matrix cannot be copied element by element: one that the model uses transposed
  // (GPT-2's) is read as it is stored.
  const bool as_stored = is_quantized(tensor.dtype()) && !tensor.is_contiguous();
  const Tensor dense =
      (as_stored ? transpose(tensor.detach(), 0, 1) : tensor.detach()).contiguous();
  const char* bytes = static_cast<const char*>(dense.raw());
  const int64_t count = dense.bytes();
  if (count <= kWhole) {
    return fingerprint_of(bytes, static_cast<size_t>(count), seed);
  }
  for (int64_t i = 0; i < kSamples; ++i) {
    const int64_t begin = (count - kSample) / (kSamples - 1) * i;
    seed = fingerprint_of(bytes + begin, static_cast<size_t>(kSample), seed);
  }
  return seed;
}

/// Tells models apart: architecture, names, types and values of the weights and the adapter.
std::string fingerprint_of_model(const Model& model) {
  uint64_t sum = fingerprint_of(model.model_type());
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    sum = fingerprint_of(
        fmt::format("{} {} {}", name, name_of(tensor.dtype()), tensor.shape().to_string()), sum);
    sum = fingerprint_of_tensor(tensor, sum);
  };
  for (const Parameter& parameter : model.parameters()) {
    add(parameter.name, parameter.tensor);
  }
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    add(layer.name + fmt::format(" {}", layer.update.scale), layer.update.a);
    add(layer.name, layer.update.b);
  }
  return fmt::format("{:016x}", sum);
}

std::string checksum_of(const TensorMap& tensors) {
  uint32_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    sum = crc32_of(name, sum);
    sum = crc32_of(tensor.raw(), static_cast<size_t>(tensor.bytes()), sum);
  }
  return fmt::format("{:08x}", sum);
}

/// Keys or values as safetensors holds them. Quantised ones become f32, which gives the same blocks
/// when they are quantised again.
Tensor storable(const Tensor& rows) {
  return (is_quantized(rows.dtype()) ? dequantize(rows) : rows).contiguous();
}

/// The type of a model's cached keys and values.
std::string cache_type(const Model& model) {
  const SequenceCache cache = model.new_cache(1);
  return cache.self.empty() ? "" : std::string(name_of(cache.self.front().dtype()));
}

std::string layer_name(size_t entry, size_t layer, const char* what) {
  return fmt::format("{}.layers.{}.{}", entry, layer, what);
}

const Tensor& find(const TensorMap& tensors, const std::string& name, const std::string& file) {
  const auto found = tensors.find(name);
  check_data(found != tensors.end(), file, "lacks '{}'", name);
  return found->second;
}

/// One layer's keys or values as its cache takes them: `like` with another number of positions.
const Tensor& checked(const Tensor& tensor, const Tensor& like, int64_t length,
                      const std::string& name, const std::string& file) {
  const Shape wanted{1, like.size(1), length, like.size(3)};
  const DType type = is_quantized(like.dtype()) ? DType::f32 : like.dtype();
  check_data(tensor.shape() == wanted && tensor.dtype() == type, file,
             "'{}' is {} {}; {} {} is wanted", name, name_of(tensor.dtype()),
             tensor.shape().to_string(), name_of(type), wanted.to_string());
  return tensor;
}

}  // namespace

void Scheduler::save_prefixes(const std::filesystem::path& file) const {
  check(prefixes_ != nullptr, "prompt cache",
        "this model's keys and values cannot be kept: their positions depend on the length");
  TensorMap tensors;
  size_t entry = 0;
  for (const Prefixes::Kept& kept : prefixes_->kept) {
    if (!can_share(kept.cache)) {
      continue;  // it slid
    }
    const auto length = static_cast<int64_t>(kept.tokens.size());
    tensors.emplace(fmt::format("{}.tokens", entry), Tensor::from(kept.tokens, {length}));
    for (size_t layer = 0; layer < kept.cache.self.size(); ++layer) {
      const KvCache& cache = kept.cache.self[layer];
      tensors.emplace(layer_name(entry, layer, "keys"), storable(cache.keys()));
      tensors.emplace(layer_name(entry, layer, "values"), storable(cache.values()));
    }
    ++entry;
  }
  save_safetensors(file, tensors,
                   {{"format", kFormat},
                    {"model", fingerprint_of_model(model_)},
                    {"model_type", model_.model_type()},
                    {"kv_type", cache_type(model_)},
                    {"entries", std::to_string(entry)},
                    {"checksum", checksum_of(tensors)}});
}

void Scheduler::load_prefixes(const std::filesystem::path& path) {
  const std::string& file = path.native();
  check(prefixes_ != nullptr, "prompt cache",
        "this model's keys and values cannot be kept: their positions depend on the length");
  Metadata metadata = safetensors_metadata(path);
  check_data(metadata["format"] == kFormat, file, "is no prompt cache of heed ({})", kFormat);
  check_data(metadata["model"] == fingerprint_of_model(model_), file,
             "belongs to another model (a {} with other weights than this {}); use another file",
             metadata["model_type"], model_.model_type());
  check_data(metadata["kv_type"] == cache_type(model_), file,
             "holds keys and values in {}; they are kept in {} now", metadata["kv_type"],
             cache_type(model_));
  const TensorMap tensors = load_safetensors(path);
  check_data(metadata["checksum"] == checksum_of(tensors), file,
             "does not match its checksum; delete it");
  // The entry that was used last comes last, so that it is the first again.
  std::vector<size_t> entries;
  for (size_t entry = 0; tensors.contains(fmt::format("{}.tokens", entry)); ++entry) {
    entries.push_back(entry);
  }
  std::reverse(entries.begin(), entries.end());
  for (const size_t entry : entries) {
    const std::string name = fmt::format("{}.tokens", entry);
    const Tensor& ids = find(tensors, name, file);
    check_data(ids.rank() == 1 && ids.dtype() == DType::i64, file, "'{}' is no list of tokens",
               name);
    const int64_t length = ids.numel();
    check_data(model_.context_length() == 0 || length <= model_.context_length(), file,
               "'{}' has {} tokens; the model's context is {}", name, length,
               model_.context_length());
    const KvWindow& window = model_.kv_window();
    if (window.on() && length > window.sinks + window.recent) {
      continue;  // it would have slid
    }
    SequenceCache cache = model_.new_cache(length);
    const NoGrad no_grad;
    for (size_t layer = 0; layer < cache.self.size(); ++layer) {
      KvCache& own = cache.self[layer];
      const std::string keys = layer_name(entry, layer, "keys");
      const std::string values = layer_name(entry, layer, "values");
      const Tensor k = checked(find(tensors, keys, file), own.keys(), length, keys, file);
      const Tensor v = checked(find(tensors, values, file), own.values(), length, values, file);
      own.append(k, v);
    }
    cache.length = length;
    if (can_share(cache)) {
      prefixes_->keep(ids.to_vector<int64_t>(), std::move(cache));
    }
  }
}

}  // namespace heed
