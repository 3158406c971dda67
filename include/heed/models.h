#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/model_input.h"
#include "heed/nn.h"
#include "heed/tensor.h"

namespace heed {

class Json;

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
  /// config.json as text.
  const std::string& config() const { return config_; }
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
  std::string config_;
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
/// A model from the text of a config.json and tensors by the checkpoint's names.
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

}  // namespace heed
