#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io.h"
#include "heed/nn.h"
#include "heed/tensor.h"
#include "heed/transformer.h"

namespace heed {

// Models ------------------------------------------------------------------------------------------

/// Results of a full pass; what a model does not have is undefined.
struct ModelOutput {
  Tensor loss;
  Tensor logits;
  Tensor last_hidden_state;
  Tensor pooler_output;
  Tensor encoder_last_hidden_state;
  Tensor start_logits, end_logits;           ///< [B, T]: question answering
  Tensor logits_per_image, logits_per_text;  ///< [images, texts] and transposed (CLIP)
  Tensor image_embeds, text_embeds;          ///< [images, size], [texts, size]
};

/// What a causal language model returns: `logits` [B, T, vocabulary], and where `labels` i64 [B, T]
/// are defined the mean cross entropy of predicting each token from those before it.
HEED_API ModelOutput causal_lm_output(const Tensor& logits, const Tensor& labels);

/// The encoder output that a decoder attends to.
struct EncoderOutput {
  Tensor rows;    ///< [N, hidden_size]
  Layout layout;  ///< of its sequences
};

/// What a model does.
enum class ModelKind {
  decoder,          ///< continues tokens: gpt2, llama
  encoder,          ///< reads tokens: bert, distilbert
  encoder_decoder,  ///< tokens to tokens: t5, marian
  vision,           ///< reads images: vit
  vision_decoder,   ///< images (or regions) to tokens: captioning
  speech_decoder,   ///< speech to tokens: whisper
  image_text,       ///< compares images with texts: clip, siglip
  regressor,        ///< numbers to numbers
};

/// A model and its parameters. Made by load_model() or create_model().
///
/// Thread safety: const members may be called from many threads at once, each with its own inputs,
/// caches and Recorder; the results are those of calls one after the other. Whatever changes the
/// parameters (an optimizer, Trainer, set_gradient_checkpointing()) needs the model for itself.
class HEED_API Model {
 public:
  virtual ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  virtual ModelKind kind() const;  ///< by default, that of its ModelSpec
  /// A full pass. Throws if a file whose weights are mapped has become shorter meanwhile.
  ModelOutput forward(const ModelInput& input) const;

  // Step by step, for generation. Models that cannot throw an Error that says so.
  /// The encoder's part for a batch of inputs; padding is not computed.
  virtual EncoderOutput encode(const ModelInput& input) const;
  /// An empty cache with a capacity of `capacity` positions.
  virtual SequenceCache new_cache(int64_t capacity) const;
  /// Hidden rows of the decoder for new tokens: ids i64 [N], divided by pass.layout, with
  /// pass.caches (and pass.encoder_hidden_states on the first call of an encoder-decoder). Appends
  /// to the caches.
  virtual Tensor decode(const Tensor& ids, Pass& pass) const;
  /// The type of keys and values in the self-attention caches that new_cache() makes: f32, f16,
  /// bf16 or q8_0. Throws `Error` for another type and for q8_0 with heads whose size is no
  /// multiple of 32.
  virtual void set_kv_type(DType type);
  DType kv_type() const { return kv_type_; }
  /// Attention sinks: caches that new_cache() makes keep the first positions and the last ones, so
  /// that texts may become longer than the model's context. Layers with a smaller window of their
  /// own stay as they are. Throws `Error` where the window does not fit into the context,
  /// and for models that cannot: those with learned positions, and with angles that depend on the
  /// length (LongRoPE).
  virtual void set_kv_window(const KvWindow& window);
  const KvWindow& kv_window() const { return kv_window_; }
  /// Logits [N, vocabulary] of hidden rows; checks mapped files as forward() does.
  Tensor logits(const Tensor& rows) const;

  /// By default config.json's vocab_size for models that read tokens, else 0.
  virtual int64_t vocab_size() const { return vocab_size_; }
  virtual int64_t context_length() const { return 0; }  ///< most positions; 0: no limit
  /// Most positions of the decoder, where they differ from the encoder's (LED) or a sliding cache
  /// has no limit; 0: no limit.
  virtual int64_t decoder_context_length() const { return context_length(); }
  virtual int64_t hidden_size() const { return 0; }
  virtual int64_t num_layers() const { return 0; }
  virtual int64_t num_heads() const { return 0; }

  const std::string& model_type() const { return model_type_; }
  /// Its config.json, as it was read or made.
  const Json& config() const { return *config_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  int64_t parameter_count() const;
  /// The Linear layers that an adapter changes; empty without one.
  const std::vector<AdaptedLayer>& adapted_layers() const { return adapted_; }
  /// What training changes: all parameters; of a model with an adapter only the adapter's, under
  /// PEFT's names ("base_model.model.….lora_A.weight").
  std::vector<Parameter> trainable_parameters() const;
  /// Tensors of the file that the model does not read, with the reasons.
  const std::vector<UnusedTensor>& unused_tensors() const { return unused_; }
  /// Gradient checkpointing on every stack.
  virtual void set_gradient_checkpointing(bool on) { gradient_checkpointing_ = on; }

 protected:
  Model() = default;
  // What an architecture implements behind forward() and logits().
  virtual ModelOutput do_forward(const ModelInput& input) const = 0;
  virtual Tensor do_logits(const Tensor& rows) const;
  bool gradient_checkpointing_ = false;
  DType kv_type_ = DType::f32;
  KvWindow kv_window_;

 private:
  friend struct ModelAccess;
  std::string model_type_;
  std::optional<Json> config_;  // set by whoever builds the model
  int64_t vocab_size_ = 0;
  std::vector<Parameter> parameters_;
  std::vector<UnusedTensor> unused_;
  std::vector<AdaptedLayer> adapted_;
};

/// A fresh low-rank adapter (LoRA) on a model whose own weights stay as they are stored.
struct LoraOptions {
  int64_t rank = 16;
  double alpha = 32.0;  ///< updates are scaled by alpha / rank
  /// "attention": the projections of attention layers; "all": every matrix of the blocks.
  std::string targets = "attention";
  uint64_t seed = 0;
  /// Parameters that the file lacks, or has in another shape, are made and trained whole (the head
  /// of a new classifier).
  bool new_head = false;
};

struct LoadOptions {
  /// f32 copies that require gradients, instead of mapped weights. With an adapter only its
  /// parameters are such copies.
  bool trainable = false;
  /// Copies instead of mapped weights, where they fit easily (of encoders, in f32): opening takes
  /// longer, memory is not shared with other processes, products are faster. For many tokens.
  bool in_memory = false;
  DType kv_type = DType::f32;  ///< of the cache's keys and values: see Model::set_kv_type()
  KvWindow kv_window = {};     ///< attention sinks: see Model::set_kv_window()
  /// A folder in PEFT's format (adapter_config.json, adapter_model.safetensors) whose LoRA adapter
  /// is added. Throws `Error` where it belongs to another model.
  std::filesystem::path adapter = {};
  std::optional<LoraOptions> lora = {};  ///< adds a fresh adapter that requires gradients
};
/// A Hugging Face folder, a run folder (its model/), a .gguf file, llama2.c's .bin, or a folder
/// with a LoRA adapter in PEFT's format, which names its model.
HEED_API std::unique_ptr<Model> load_model(const std::filesystem::path& path,
                                           const LoadOptions& options = {});
/// A model with fresh parameters from the text of a config.json.
HEED_API std::unique_ptr<Model> create_model(std::string_view config, uint64_t seed);
HEED_API std::unique_ptr<Model> create_model(const Json& config, uint64_t seed);
/// A model from a config.json, or the text of one, and tensors by the checkpoint's names; `file` is
/// where these come from, for messages.
HEED_API std::unique_ptr<Model> build_model(const Json& config, TensorMap tensors,
                                            const std::string& file,
                                            const LoadOptions& options = {});
HEED_API std::unique_ptr<Model> build_model(std::string_view config, TensorMap tensors,
                                            const std::string& file,
                                            const LoadOptions& options = {});
/// Writes config.json, generation_config.json and model.safetensors with the names that Hugging
/// Face expects; floating parameters in `type`. `progress` counts converted parameters.
HEED_API void save_model(
    const Model& model, const std::filesystem::path& folder, DType type = DType::f32,
    const std::function<void(int64_t done, int64_t total)>& progress = nullptr);
/// Writes a model's adapter in PEFT's format: adapter_config.json with `base` as the name or path
/// of the model that it belongs to, and adapter_model.safetensors; also config.json where the
/// adapter holds a head of its own. load_model() opens such a folder like a model's.
HEED_API void save_adapter(const Model& model, const std::filesystem::path& folder,
                           const std::string& base);
/// The model with its adapter's updates added to its weights; quantised ones become f32.
HEED_API std::unique_ptr<Model> merge_adapter(const Model& model);
/// The model that the adapter in a folder belongs to; `path` itself where it holds no adapter.
HEED_API std::filesystem::path base_model_path(const std::filesystem::path& path);
/// The model_types that load_model() knows.
HEED_API std::vector<std::string> known_model_types();

// Architectures -----------------------------------------------------------------------------------
//
// One description per architecture: everything that any other module must know of a model_type.
// Loading, saving, GGUF, training and the commands read it; none of them compares a model_type.

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
  bool points_at_tokens = false;  ///< may answer with a token of its text (heed-reader)
  bool reads_features = false;    ///< reads features of image regions, not images (heed-captioner)
  std::string fresh_tokenizer;    ///< the kind it usually has: "wordpiece:8192"; empty: "bpe:8192"
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
/// That of a model; an empty one where its class was never registered.
HEED_API const ModelSpec& model_spec(const Model& model);
/// Whether a model's logits are of the positions of its text: a reader whose readout is an
/// attention.
HEED_API bool points_at_tokens(const Model& model);
/// All of them, by model_type.
HEED_API std::vector<const ModelSpec*> model_specs();

}  // namespace heed
