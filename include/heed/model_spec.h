#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/json.h"
#include "heed/models.h"

// One description per architecture: everything that any other module must know of a model_type.
// Loading, saving, GGUF, training and the commands read it; none of them compares a model_type.

namespace heed {

/// A Hugging Face class of an architecture.
struct ModelHead {
  std::string architecture;  ///< "BertForMaskedLM", as in config.json's `architectures`
  std::string task;          ///< Hugging Face's task name, "fill-mask"; empty for a base model
  /// Parts of parameter names that a model with this head has; empty: any model.
  std::string parameter;
  std::string second_parameter = {};
};

/// Weights that a checkpoint may store once, twice or under another name. Names are given without
/// `prefix`, which a base model's file may leave out.
struct TiedWeights {
  std::string prefix = {};     ///< "model."
  std::string embedding = {};  ///< "embed_tokens.weight"; empty: nothing is tied
  std::string lm_head = {};    ///< "lm_head.weight", tied where tie_word_embeddings says so
  std::vector<std::string> copies = {};  ///< further names of the embedding
  bool tied_by_default = true;  ///< tie_word_embeddings where config.json does not mention it
  /// Whether a file may hold an embedding for each side although config.json shares them (Marian).
  bool sides_may_differ = false;
  /// Flags of config.json that are set where a file unties the head against config.json.
  std::vector<std::string> set_when_untied = {};
};

/// How a tensor lies in a GGUF file compared with the checkpoint.
enum class GgufLayout {
  same,
  transposed,      ///< [in, out] in the checkpoint (Conv1D), [out, in] in GGUF
  query_pairs,     ///< rows of each head in rotary pairs (2i, 2i+1) instead of halves (i, i + D/2)
  key_pairs,       ///< likewise, with the number of key-value heads
  plus_one,        ///< GGUF holds the weight + 1 (Gemma's norms)
  qkv_groups,      ///< rows of all queries, keys and values in GGUF; per key-value head elsewhere
  behind_padding,  ///< GGUF lacks the rows up to pad_token_id (RoBERTa's positions)
};

struct GgufTensor {
  std::string gguf;        ///< "attn_q", without "blk.N." and without ".weight"
  std::string checkpoint;  ///< "self_attn.q_proj", without the prefix and the layer
  GgufLayout layout = GgufLayout::same;
};

/// A metadata value that is one value of config.json.
struct GgufKey {
  enum class Kind { size, number, flag };
  std::string gguf;    ///< "attention.head_count", without the architecture
  std::string config;  ///< "num_attention_heads"
  Kind kind = Kind::size;
  /// What holds where the file lacks the key; NaN: the key is required. Keys whose default is
  /// `kUnset` are left out of config.json where the file lacks them.
  double otherwise = kRequired;

  static constexpr double kRequired = -1e300;
  static constexpr double kUnset = -2e300;
};

/// The metadata and tensors of an open GGUF file, for `GgufSpec::read_config`.
class HEED_API GgufMetadata {
 public:
  virtual ~GgufMetadata() = default;
  virtual bool has(std::string_view key) const = 0;  ///< without the architecture
  virtual int64_t size(std::string_view key, int64_t otherwise) const = 0;
  virtual double number(std::string_view key, double otherwise) const = 0;
  virtual std::string string(std::string_view key, std::string_view otherwise) const = 0;
  virtual bool has_tensor(std::string_view name) const = 0;
  /// Rows (size of axis 0) of a matrix.
  virtual int64_t rows(std::string_view tensor) const = 0;
  virtual std::vector<double> values(std::string_view tensor) const = 0;
  virtual const std::string& file() const = 0;
};

/// Receives metadata and tensors, for `GgufSpec::write_config`.
class HEED_API GgufOutput {
 public:
  virtual ~GgufOutput() = default;
  virtual void size(std::string_view key, int64_t value) = 0;
  virtual void number(std::string_view key, double value) = 0;
  virtual void string(std::string_view key, std::string_view value) = 0;
  virtual void flag(std::string_view key, bool value) = 0;
  virtual void tensor(std::string_view name, const Tensor& value) = 0;
};

/// How an architecture is kept in GGUF.
struct GgufSpec {
  std::string architecture;  ///< general.architecture; empty: GGUF cannot hold this model
  std::string prefix;        ///< of the base model's parameters: "model."
  std::string layers;        ///< before a layer's number: "layers."
  std::vector<GgufKey> keys;
  /// Outside the layers, and where a model has several stacks all of them: "#" stands for a layer's
  /// number in both names ("enc.blk.#.attn_q", "encoder.block.#.layer.0.SelfAttention.q").
  std::vector<GgufTensor> tensors;
  std::vector<GgufTensor> layer_tensors;  ///< inside each layer
  std::string kept;  ///< parameters that GGUF has no name for keep theirs where it starts like this
  /// Adds what `keys` cannot say; called after them.
  std::function<void(const GgufMetadata& file, JsonBuilder& config)> read_config;
  std::function<void(GgufOutput& file, const Json& config, const Model& model)> write_config;
  /// Which of several model types with one GGUF architecture a file holds; empty: always this one.
  std::function<bool(const GgufMetadata& file, const Json& own_config)> matches;
  /// Refuses what GGUF cannot hold, by name; may be empty.
  std::function<void(const Json& config)> check_writable;
};

/// Sizes of a model that is trained from scratch.
struct FreshSizes {
  int64_t vocab_size = 0;
  int64_t hidden_size = 128;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t intermediate_size = 512;
  int64_t context_length = 128;
  double dropout = 0.1;
  int64_t pad_token_id = 0;  ///< of the tokenizer
  std::string task;          ///< "lm", "mlm", "classify" …: heed train's task
  int64_t image_size = 0;    ///< pixels per side, of a vision model
  int64_t num_channels = 3;  ///< of a vision model
};

/// Everything heed knows about one model_type.
struct ModelSpec {
  std::string model_type;
  ModelKind kind = ModelKind::decoder;
  /// Builds the model; parameters come from the scope by the checkpoint's own names.
  std::function<std::unique_ptr<Model>(const Json& config, const Scope& scope)> make;
  std::vector<ModelHead> heads;  ///< the first whose `parameter` fits describes a saved model
  TiedWeights ties;
  GgufSpec gguf;
  /// Tasks of `heed train` that can train it from scratch, and the config.json for that.
  std::vector<std::string> train_tasks;
  std::function<JsonBuilder(const FreshSizes& sizes)> fresh_config;
  /// pooler_output is a text's vector, compared by inner product (DPR); false: the mean of the rows
  /// (or what sentence-transformers' files say), compared by cosine.
  bool pooler_is_embedding = false;
  std::string fresh_tokenizer;  ///< the kind it usually has: "wordpiece:8192"; empty: "bpe:8192"
};

/// The sizes under Hugging Face's most common names: vocab_size, hidden_size, num_hidden_layers,
/// num_attention_heads, intermediate_size, max_position_embeddings, dropout.
HEED_API JsonBuilder usual_fresh_config(const FreshSizes& sizes);

/// Makes an architecture known: its folders load, train, save, convert and can be inspected like
/// any other. Throws where the model_type is known already. Call it before other threads load
/// models.
HEED_API void register_model(ModelSpec spec);
/// The same for a class with a constructor M(const Json& config, const Scope& scope). What `spec`
/// leaves empty is the usual: a decoder, trained for "lm" with usual_fresh_config().
template <class M>
void register_model(const std::string& model_type, ModelSpec spec = {}) {
  spec.model_type = model_type;
  spec.make = [](const Json& config, const Scope& scope) {
    return std::make_unique<M>(config, scope);
  };
  if (spec.train_tasks.empty() && spec.kind == ModelKind::decoder) {
    spec.train_tasks = {"lm"};
  }
  if (!spec.fresh_config) {
    spec.fresh_config = usual_fresh_config;
  }
  register_model(std::move(spec));
}

/// The description of a model_type; null where it is not known.
HEED_API const ModelSpec* find_model_spec(std::string_view model_type);
/// All of them, by model_type.
HEED_API std::vector<const ModelSpec*> model_specs();

}  // namespace heed
