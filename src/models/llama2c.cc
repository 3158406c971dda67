#include "models/llama2c.h"

#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "io/json_writer.h"
#include "models/gguf/model.h"

namespace heed {
namespace {

struct Header {
  int32_t width, inner, layers, heads, kv_heads, vocabulary, context;
};
constexpr int32_t kNewMagic = 0x616b3432;  // llama2.c's versions 1 and 2 start with "24ka"

struct Sizes {
  int64_t width, inner, layers, heads, kv_heads, vocabulary, context;
  bool shared;  // the head is the embedding
  int64_t kv_width() const { return width / heads * kv_heads; }
};

int64_t checked(const std::string& file, const char* name, int32_t value) {
  constexpr int32_t kMost = 1 << 24;
  check_data(value > 0 && value <= kMost, file, "{} is {}; 1 to {} is wanted", name, value, kMost);
  return value;
}

Sizes read_header(const MappedFile& mapping) {
  const std::string& file = mapping.path().native();
  Header header;
  check_data(mapping.bytes().size() >= sizeof header, file, "is too short for a llama2.c header");
  std::memcpy(&header, mapping.bytes().data(), sizeof header);
  check_data(header.width != kNewMagic, file,
             "is a llama2.c checkpoint of version 1 or later; export it with version 0");
  check_data(header.vocabulary != INT32_MIN, file, "vocab_size is out of range");
  Sizes sizes;
  sizes.width = checked(file, "dim", header.width);
  sizes.inner = checked(file, "hidden_dim", header.inner);
  sizes.layers = checked(file, "n_layers", header.layers);
  sizes.heads = checked(file, "n_heads", header.heads);
  sizes.kv_heads = checked(file, "n_kv_heads", header.kv_heads);
  sizes.vocabulary = checked(file, "vocab_size", std::abs(header.vocabulary));
  sizes.context = checked(file, "seq_len", header.context);
  sizes.shared = header.vocabulary > 0;
  check_data(sizes.width % sizes.heads == 0 && sizes.width / sizes.heads % 2 == 0, file,
             "dim {} is not n_heads {} of an even width", sizes.width, sizes.heads);
  check_data(sizes.heads % sizes.kv_heads == 0, file,
             "n_heads {} is not divisible by n_kv_heads {}", sizes.heads, sizes.kv_heads);
  return sizes;
}

/// Hands out the file's weights one after the other.
class Weights {
 public:
  explicit Weights(std::shared_ptr<MappedFile> mapping)
      : mapping_(std::move(mapping)), at_(sizeof(Header)) {}

  Tensor next(const Shape& shape) {
    const auto bytes = static_cast<size_t>(shape.numel()) * sizeof(float);
    const auto all = mapping_->bytes();
    check_data(bytes <= all.size() - at_, mapping_->path().native(),
               "ends at byte {}, where the header promises {} more weights", all.size(),
               shape.numel());
    const std::byte* data = all.data() + at_;
    at_ += bytes;
    return Tensor::borrow(data, shape, DType::f32, mapping_);
  }
  void finish() const {
    check_data(at_ == mapping_->bytes().size(), mapping_->path().native(),
               "holds {} bytes more than its header promises", mapping_->bytes().size() - at_);
  }

 private:
  std::shared_ptr<MappedFile> mapping_;
  size_t at_;
};

TensorMap read_weights(const std::shared_ptr<MappedFile>& mapping, const Sizes& sizes) {
  Weights weights(mapping);
  TensorMap tensors;
  auto layers = [&](const char* name, const Shape& shape, int64_t rotated_heads = 0) {
    for (int64_t i = 0; i < sizes.layers; ++i) {
      const Tensor tensor = weights.next(shape);
      tensors.emplace(fmt::format("model.layers.{}.{}.weight", i, name),
                      rotated_heads > 0 ? gguf::rows_in_halves(tensor, rotated_heads) : tensor);
    }
  };
  const int64_t width = sizes.width;
  tensors.emplace("model.embed_tokens.weight", weights.next({sizes.vocabulary, width}));
  layers("input_layernorm", {width});
  layers("self_attn.q_proj", {width, width}, sizes.heads);
  layers("self_attn.k_proj", {sizes.kv_width(), width}, sizes.kv_heads);
  layers("self_attn.v_proj", {sizes.kv_width(), width});
  layers("self_attn.o_proj", {width, width});
  layers("post_attention_layernorm", {width});
  layers("mlp.gate_proj", {sizes.inner, width});
  layers("mlp.down_proj", {width, sizes.inner});
  layers("mlp.up_proj", {sizes.inner, width});
  tensors.emplace("model.norm.weight", weights.next({width}));
  weights.next({sizes.context, width / sizes.heads});  // tables of cosines and sines, not read
  if (!sizes.shared) {
    tensors.emplace("lm_head.weight", weights.next({sizes.vocabulary, width}));
  }
  weights.finish();
  return tensors;
}

std::string config_of(const Sizes& sizes) {
  JsonWriter json(2);
  json.begin_object()
      .field("architectures", std::vector<std::string>{"LlamaForCausalLM"})
      .field("bos_token_id", 1)
      .field("eos_token_id", 2)
      .field("hidden_act", "silu")
      .field("hidden_size", sizes.width)
      .field("intermediate_size", sizes.inner)
      .field("max_position_embeddings", sizes.context)
      .field("model_type", "llama")
      .field("num_attention_heads", sizes.heads)
      .field("num_hidden_layers", sizes.layers)
      .field("num_key_value_heads", sizes.kv_heads)
      .field("rms_norm_eps", 1e-5)
      .field("rope_theta", 10000.0)
      .field("tie_word_embeddings", sizes.shared)
      .field("vocab_size", sizes.vocabulary)
      .end_object();
  return json.take();
}

}  // namespace

ModelFiles llama2c_files(const std::filesystem::path& path) {
  const auto mapping = std::make_shared<MappedFile>(path);
  const Sizes sizes = read_header(*mapping);
  ModelFiles files;
  files.config = config_of(sizes);
  files.config_name = path.native();
  files.weights_name = path.native();
  files.tensors = [mapping, sizes] { return read_weights(mapping, sizes); };
  return files;
}

}  // namespace heed
