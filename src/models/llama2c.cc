#include "models/llama2c.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "io/json_writer.h"
#include "models/gguf/model.h"

namespace heed {
namespace {

constexpr uint32_t kMagic = 0x616b3432;  // versions 1 and 2; a file of version 0 has none
constexpr size_t kHeaderBytes = 256;     // of versions 1 and 2

/// What all versions say about the model.
struct Numbers {
  int32_t width, intermediate_size, layers, heads, num_kv_heads, vocabulary, context;
};

struct Sizes {
  int64_t width, intermediate_size, layers, heads, num_kv_heads, vocabulary, context;
  bool shared;        // the head is the embedding
  int32_t version;    // 0: f32; 1: f32 behind a longer header; 2: matrices of 8 bits
  int64_t group = 0;  // of version 2: weights that share a scale
  size_t weights;     // where they begin
  int64_t kv_width() const { return width / heads * num_kv_heads; }
};

int64_t checked(const std::string& file, const char* name, int32_t value) {
  constexpr int32_t kMost = 1 << 24;
  check_data(value > 0 && value <= kMost, file, "{} is {}; expected 1 to {}", name, value, kMost);
  return value;
}

/// Takes values from the head of a file, one after the other.
class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& mapping) : mapping_(mapping) {}

  template <class T>
  T next() {
    T value;
    check_data(mapping_.bytes().size() >= at_ + sizeof value, mapping_.path().native(),
               "is too short for a llama2.c header");
    std::memcpy(&value, mapping_.bytes().data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  size_t at() const { return at_; }
  void back_to(size_t at) { at_ = at; }

 private:
  const MappedFile& mapping_;
  size_t at_ = 0;
};

Sizes sizes_of(const std::string& file, const Numbers& numbers, int32_t vocabulary) {
  Sizes sizes;
  sizes.width = checked(file, "dim", numbers.width);
  sizes.intermediate_size = checked(file, "hidden_dim", numbers.intermediate_size);
  sizes.layers = checked(file, "n_layers", numbers.layers);
  sizes.heads = checked(file, "n_heads", numbers.heads);
  sizes.num_kv_heads = checked(file, "n_kv_heads", numbers.num_kv_heads);
  sizes.vocabulary = checked(file, "vocab_size", vocabulary);
  sizes.context = checked(file, "seq_len", numbers.context);
  check_data(sizes.width % sizes.heads == 0 && sizes.width / sizes.heads % 2 == 0, file,
             "dim {} is not n_heads {} of an even width", sizes.width, sizes.heads);
  check_data(sizes.heads % sizes.num_kv_heads == 0, file,
             "n_heads {} is not divisible by n_kv_heads {}", sizes.heads, sizes.num_kv_heads);
  return sizes;
}

Sizes read_header(const MappedFile& mapping) {
  const std::string& file = mapping.path().native();
  HeaderReader header(mapping);
  if (header.next<uint32_t>() != kMagic) {
    header.back_to(0);
    const auto numbers = header.next<Numbers>();
    check_data(numbers.vocabulary != INT32_MIN, file, "vocab_size is out of range");
    Sizes sizes = sizes_of(file, numbers, std::abs(numbers.vocabulary));
    sizes.version = 0;
    sizes.shared = numbers.vocabulary > 0;
    sizes.weights = header.at();
    return sizes;
  }
  const auto version = header.next<int32_t>();
  check_data(version == 1 || version == 2, file,
             "is a llama2.c checkpoint of version {}; heed knows 0, 1 and 2", version);
  const auto numbers = header.next<Numbers>();
  Sizes sizes = sizes_of(file, numbers, numbers.vocabulary);
  sizes.version = version;
  const auto shared = header.next<uint8_t>();
  check_data(shared <= 1, file, "shared_classifier is {}; expected 0 or 1", shared);
  sizes.shared = shared == 1;
  if (version == 2) {
    sizes.group = checked(file, "group_size", header.next<int32_t>());
  }
  sizes.weights = kHeaderBytes;
  return sizes;
}

enum class Part {
  norm,    // f32 in every version
  matrix,  // 8 bits in version 2
  query,   // a matrix whose rows are pairs of a head's halves
  key,
  unread,  // tables of cosines and sines
};

/// Calls fn(name, shape, part) for the file's tensors in their order.
template <class Fn>
void for_each_part(const Sizes& sizes, const Fn& fn) {
  const int64_t width = sizes.width;
  auto layers = [&](const char* name, const Shape& shape, Part part) {
    for (int64_t i = 0; i < sizes.layers; ++i) {
      fn(fmt::format("model.layers.{}.{}.weight", i, name), shape, part);
    }
  };
  const auto embedding = [&] {
    fn("model.embed_tokens.weight", {sizes.vocabulary, width}, Part::matrix);
  };
  const auto attention = [&] {
    layers("self_attn.q_proj", {width, width}, Part::query);
    layers("self_attn.k_proj", {sizes.kv_width(), width}, Part::key);
    layers("self_attn.v_proj", {sizes.kv_width(), width}, Part::matrix);
    layers("self_attn.o_proj", {width, width}, Part::matrix);
  };
  const auto feed_forward = [&] {
    layers("mlp.gate_proj", {sizes.intermediate_size, width}, Part::matrix);
    layers("mlp.down_proj", {width, sizes.intermediate_size}, Part::matrix);
    layers("mlp.up_proj", {sizes.intermediate_size, width}, Part::matrix);
  };
  if (sizes.version == 0) {
    embedding();
    layers("input_layernorm", {width}, Part::norm);
    attention();
    layers("post_attention_layernorm", {width}, Part::norm);
    feed_forward();
    fn("model.norm.weight", {width}, Part::norm);
    fn("", {sizes.context, width / sizes.heads}, Part::unread);
  } else {
    layers("input_layernorm", {width}, Part::norm);
    layers("post_attention_layernorm", {width}, Part::norm);
    fn("model.norm.weight", {width}, Part::norm);
    embedding();
    attention();
    feed_forward();
  }
  if (!sizes.shared) {
    fn("lm_head.weight", {sizes.vocabulary, width}, Part::matrix);
  }
}

bool is_quantized(const Sizes& sizes, Part part) { return sizes.group > 0 && part != Part::norm; }

/// Bytes of a part: f32, or whole numbers of 8 bits and then a scale in f32 a group.
size_t bytes_of(const Sizes& sizes, const Shape& shape, Part part) {
  const auto count = static_cast<size_t>(shape.numel());
  return is_quantized(sizes, part)
             ? count + count / static_cast<size_t>(sizes.group) * sizeof(float)
             : count * sizeof(float);
}

/// The header's promise, before anything is allocated for it.
void check_length(const MappedFile& mapping, const Sizes& sizes) {
  const std::string& file = mapping.path().native();
  const size_t there = mapping.bytes().size();
  size_t wanted = sizes.weights;
  check_data(wanted <= there, file, "ends at byte {}, before the weights", there);
  for_each_part(sizes, [&](const std::string& name, const Shape& shape, Part part) {
    check_data(!is_quantized(sizes, part) || shape.numel() % sizes.group == 0, file,
               "{} {} is no multiple of group_size {}", name, shape, sizes.group);
    wanted += bytes_of(sizes, shape, part);
    check_data(wanted <= there, file,
               "ends at byte {}, where the header promises more: {} up to {}", there, name, wanted);
  });
  check_data(there == wanted, file, "holds {} bytes more than its header promises", there - wanted);
}

/// The products of whole numbers and scales, exactly as they are meant.
Tensor widened(const std::byte* data, const Shape& shape, int64_t group, const std::string& file,
               const std::string& name) {
  Tensor tensor = Tensor::empty(shape);
  float* out = tensor.data<float>();
  const auto* values = reinterpret_cast<const int8_t*>(data);
  const std::byte* scales = data + shape.numel();
  for (int64_t g = 0; g < shape.numel() / group; ++g) {
    float scale;  // at any byte
    std::memcpy(&scale, scales + static_cast<size_t>(g) * sizeof scale, sizeof scale);
    check_data(std::isfinite(scale) && scale >= 0, file, "{}: scale {} of group {} makes no sense",
               name, scale, g);
    for (int64_t i = g * group; i < (g + 1) * group; ++i) {
      out[i] = static_cast<float>(values[i]) * scale;
    }
  }
  return tensor;
}

TensorMap read_weights(const std::shared_ptr<MappedFile>& mapping, const Sizes& sizes) {
  check_length(*mapping, sizes);
  const std::byte* at = mapping->bytes().data() + sizes.weights;
  TensorMap tensors;
  for_each_part(sizes, [&](const std::string& name, const Shape& shape, Part part) {
    const std::byte* data = at;
    at += bytes_of(sizes, shape, part);
    if (part == Part::unread) {
      return;
    }
    const Tensor tensor = is_quantized(sizes, part)
                              ? widened(data, shape, sizes.group, mapping->path().native(), name)
                              : Tensor::borrow(data, shape, DType::f32, mapping);
    const int64_t pairs = part == Part::query ? sizes.heads
                          : part == Part::key ? sizes.num_kv_heads
                                              : 0;
    tensors.emplace(name, pairs > 0 ? gguf::rows_in_halves(tensor, pairs) : tensor);
  });
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
      .field("intermediate_size", sizes.intermediate_size)
      .field("max_position_embeddings", sizes.context)
      .field("model_type", "llama")
      .field("num_attention_heads", sizes.heads)
      .field("num_hidden_layers", sizes.layers)
      .field("num_key_value_heads", sizes.num_kv_heads)
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
  return {.config = Json::parse(config_of(sizes), path.native()),
          .weights_name = path.native(),
          .tensors = [mapping, sizes] { return read_weights(mapping, sizes); }};
}

}  // namespace heed
