#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

// What goes into models and what comes out of files: tensors, images, audio, JSON.

namespace heed {

// Files of tensors --------------------------------------------------------------------------------
//
// Whatever a file holds, reading it gives its tensors or throws Error of kind
// data that names the file and the field; see docs/formats.

/// Tensors by name, in the names' byte order.
using TensorMap = std::map<std::string, Tensor, std::less<>>;
using Metadata = std::map<std::string, std::string, std::less<>>;

/// The tensors of a .safetensors file, borrowed from its mapping: nothing is read before its first
/// use, and the mapping lives as long as a tensor does. Only what lies misaligned is copied; I8,
/// I16 and U16 become i32, U32 becomes i64.
HEED_API TensorMap load_safetensors(const std::filesystem::path& path);
/// The strings under __metadata__.
HEED_API Metadata safetensors_metadata(const std::filesystem::path& path);
/// Replaces `path` in one step: a reader sees the whole old file or the whole new one. Tensors lie
/// as Hugging Face's own writer lays them.
HEED_API void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                               const Metadata& metadata = {{"format", "pt"}});
/// The weights of a Hugging Face folder: model.safetensors, or the shards that
/// model.safetensors.index.json names.
HEED_API TensorMap load_weights(const std::filesystem::path& folder);

/// NumPy's .npy: little-endian f2, f4, f8, i4, i8, u1 and b1, in either order.
HEED_API Tensor load_npy(const std::filesystem::path& path);
/// bf16 is written as f4, which NumPy knows.
HEED_API void save_npy(const std::filesystem::path& path, const Tensor& tensor);
/// MNIST's IDX format, plain or gzipped: u8, i32 or f32.
HEED_API Tensor load_idx(const std::filesystem::path& path);

/// Throws if a file that tensors are mapped from was truncated while in use, in which case nothing
/// computed from it can be trusted. Costs one system call per mapped file; call it when a result is
/// ready. See docs/adr/0009-truncated-files.md.
HEED_API void check_files_intact();

// Images ------------------------------------------------------------------------------------------

/// An image file as u8 [C, H, W]: PNG, JPEG, PGM or PPM, told apart by content. `channels` is 1
/// (grey) or 3 (red, green, blue); 0 takes what the file has. Transparency is dropped, 16 bits are
/// scaled to 8. A corrupt or truncated file, or one of more than 100 million pixels, throws kind
/// data.
HEED_API Tensor load_image(const std::filesystem::path& path, int channels = 0);
/// The same for bytes in memory; `name` is for messages.
HEED_API Tensor decode_image(std::string_view bytes, const std::string& name, int channels = 0,
                             uint64_t max_pixels = 100'000'000);

enum class Resample { bilinear, bicubic };
/// [C, H, W] of u8 or f32 in a new size. Shrinking averages over all pixels that fall into one, as
/// Pillow does; u8 results are Pillow's to the bit.
HEED_API Tensor resize_image(const Tensor& image, int64_t height, int64_t width,
                             Resample filter = Resample::bilinear);
/// The middle [C, height, width] of an image, which must be as large.
HEED_API Tensor center_crop(const Tensor& image, int64_t height, int64_t width);
/// (image * rescale - mean) / stddev as f32 [C, H, W], with one mean and stddev per channel.
HEED_API Tensor normalize_image(const Tensor& image, const std::array<double, 3>& mean,
                                const std::array<double, 3>& stddev, double rescale = 1.0 / 255.0);

/// u8 [H, W], [H, W, 3] or [H, W, 4] as PNG.
HEED_API std::string encode_png(const Tensor& pixels);
HEED_API void save_png(const std::filesystem::path& path, const Tensor& pixels);

// Audio -------------------------------------------------------------------------------------------
//
// Speech as models read it: samples of one channel, and their log-mel spectrogram.

/// An audio file as f32 [samples] of one channel at `sample_rate`: WAV, FLAC, OGG, MP3 and what
/// else libsndfile reads, told apart by content. Channels are averaged, other rates resampled. A
/// broken file, or one of more than six hours, throws kind data. Reads no further than
/// `most_samples`.
HEED_API Tensor load_audio(const std::filesystem::path& path, int64_t sample_rate = 16000,
                           int64_t most_samples = std::numeric_limits<int64_t>::max());
/// The same for bytes in memory; `name` is for messages.
HEED_API Tensor decode_audio(std::string_view bytes, const std::string& name,
                             int64_t sample_rate = 16000,
                             int64_t most_samples = std::numeric_limits<int64_t>::max());

/// How a spectrogram is taken; the defaults are Whisper's.
struct LogMelOptions {
  int64_t sample_rate = 16000;
  int64_t fft_size = 400;    ///< samples of a frame (n_fft)
  int64_t hop_length = 160;  ///< samples from one frame to the next
  int64_t mels = 80;         ///< bands, of Slaney's scale
  double max_frequency = 8000.0;
};

/// The log-mel spectrogram of samples [N] as Whisper reads it: f32 [mels, N / hop_length], squared
/// magnitudes of Hann windows in mel bands, log10, at most 8 below the largest, moved by 4 and
/// divided by 4.
HEED_API Tensor log_mel_spectrogram(const Tensor& samples, const LogMelOptions& options = {});

// JSON --------------------------------------------------------------------------------------------

/// What a JSON text may hold. Checked before a parser sees it, so that no input makes the parser
/// use time, stack or memory out of proportion.
struct JsonLimits {
  uint64_t depth = 64;
  uint64_t values = 8'000'000;         ///< of all arrays and objects together
  uint64_t token = uint64_t{8} << 20;  ///< bytes of one string or number
};

struct JsonNode;    // a value inside a document
class JsonBuilder;  // makes documents; see below

/// A value of a parsed JSON (or TOML) text: a cheap handle, copies share the document. Getters
/// check type and range and throw `Error` of kind data that names file, field and what is expected:
/// `config.json: text_config.n_head is "abc"; a whole number is wanted`.
class HEED_API Json {
 public:
  /// Parses all of `text`. Refuses what lies beyond the limits, bad UTF-8, a key that comes twice
  /// in an object, and anything after the value. `file` is the name in messages.
  static Json parse(std::string_view text, const std::string& file, const JsonLimits& limits = {});
  static Json read(const std::filesystem::path& path, const JsonLimits& limits = {},
                   uint64_t max_bytes = uint64_t{512} << 20);

  bool is_null() const;
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_integer() const;
  bool is_boolean() const;

  /// The value itself, checked.
  std::string string() const;
  const std::string& string_ref() const;  ///< lives as long as the document
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(double low = -std::numeric_limits<double>::max(),
                double high = std::numeric_limits<double>::max()) const;
  bool boolean() const;

  /// Members of an object. null counts as absent, as Hugging Face's configurations mean it.
  bool has(std::string_view key) const;
  bool mentions(std::string_view key) const;             ///< present, be it null
  Json at(std::string_view key) const;                   ///< throws where it is absent
  std::optional<Json> find(std::string_view key) const;  ///< nothing where it is absent
  std::string string(std::string_view key) const { return at(key).string(); }
  int64_t integer(std::string_view key, int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const {
    return at(key).integer(low, high);
  }
  double number(std::string_view key, double low, double high) const {
    return at(key).number(low, high);
  }
  bool boolean(std::string_view key) const { return at(key).boolean(); }
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t low, int64_t high) const;
  double number_or(std::string_view key, double otherwise, double low, double high) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  /// Throws where the object has a key that is not among these, and names them.
  void only(std::initializer_list<std::string_view> known) const;

  /// Elements of an array or members of an object (these in the order of their keys).
  size_t size() const;
  Json operator[](size_t index) const;
  void for_each(const std::function<void(const std::string& key, const Json& value)>& fn) const;
  std::vector<Json> elements() const;  ///< of an array
  std::vector<int64_t> integers(int64_t low, int64_t high) const;
  std::vector<std::string> strings() const;

  const std::string& file() const;
  std::string field() const;  ///< "text_config.layers[3]"; "the text" for the whole
  /// Throws `file: field <what>`.
  [[noreturn]] void refuse(const std::string& what) const;
  std::string dump(int indent = -1) const;

 private:
  friend struct JsonAccess;
  struct Document;
  Json(std::shared_ptr<const Document> document, const JsonNode* node)
      : document_(std::move(document)), node_(node) {}
  [[noreturn]] void wanted(std::string_view what) const;

  std::shared_ptr<const Document> document_;
  const JsonNode* node_ = nullptr;
};

/// Builds a JSON object: `JsonBuilder().set("hidden_size", 64).set("hidden_act", "silu").build()`.
class HEED_API JsonBuilder {
 public:
  JsonBuilder();
  /// Starts from a copy of an object.
  explicit JsonBuilder(const Json& object);
  JsonBuilder(const JsonBuilder& other);
  JsonBuilder(JsonBuilder&&) noexcept;
  JsonBuilder& operator=(JsonBuilder other) noexcept;
  ~JsonBuilder();

  JsonBuilder& set(std::string_view key, int64_t value);
  JsonBuilder& set(std::string_view key, int value) {
    return set(key, static_cast<int64_t>(value));
  }
  JsonBuilder& set(std::string_view key, double value);
  JsonBuilder& set(std::string_view key, bool value);
  JsonBuilder& set(std::string_view key, std::string_view value);
  JsonBuilder& set(std::string_view key, const char* value) {
    return set(key, std::string_view(value));
  }
  JsonBuilder& set(std::string_view key, const std::string& value) {
    return set(key, std::string_view(value));
  }
  JsonBuilder& set(std::string_view key, const std::vector<std::string>& values);
  JsonBuilder& set(std::string_view key, const std::vector<int64_t>& values);
  JsonBuilder& set(std::string_view key, const std::vector<double>& values);
  JsonBuilder& set(std::string_view key, const std::vector<Json>& values);
  JsonBuilder& set(std::string_view key, const Json& value);
  JsonBuilder& set(std::string_view key, const JsonBuilder& value);
  JsonBuilder& set_null(std::string_view key);
  /// Sets the value only where the key is absent.
  template <class T>
  JsonBuilder& set_default(std::string_view key, const T& value) {
    return has(key) ? *this : set(key, value);
  }
  JsonBuilder& erase(std::string_view key);
  bool has(std::string_view key) const;

  /// The document; `file` is its name in messages.
  Json build(const std::string& file = "config.json") const;
  std::string dump(int indent = 2) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Inputs of models --------------------------------------------------------------------------------

/// Inputs of a full pass, by Hugging Face's names. A model takes those it knows; others are an
/// error.
struct ModelInput {
  Tensor input_ids;               ///< i64 [B, T]
  Tensor attention_mask;          ///< i64 or u8 [B, T], 1 = real
  Tensor token_type_ids;          ///< i64 [B, T]
  Tensor decoder_input_ids;       ///< i64 [B, T]
  Tensor decoder_attention_mask;  ///< i64 or u8 [B, T]
  Tensor pixel_values;            ///< f32 [B, C, H, W]
  Tensor input_features;          ///< f32 [B, mels, frames]: a log-mel spectrogram
  Tensor features;                ///< f32 [B, N, F]: image regions, or a sequence to regress on
  Tensor decoder_features;        ///< f32 [B, T, F]: the regressor's shifted targets
  Tensor global_attention_mask;   ///< i64 or u8 [B, T], 1 = attends to all (Longformer)
  Tensor start_positions;         ///< i64 [B]: first token of the answer (question answering)
  Tensor end_positions;           ///< i64 [B]: its last token
  Tensor context_input_ids;       ///< i64 [B * n_docs, T]: documents with the question (RAG)
  Tensor context_attention_mask;  ///< i64 or u8 [B * n_docs, T], 1 = real
  Tensor doc_scores;              ///< f32 [B, n_docs]: products of question and documents (RAG)
  Tensor labels;                  ///< i64 (classes or tokens, -100 = ignore) or f32 (regression)
  bool training = false;          ///< dropout on
  int64_t first_example = 0;      ///< index of the first example in the whole batch, for dropout
  bool want_loss = false;         ///< of a model whose loss needs no labels (CLIP)
  bool want_logits = true;        ///< false: only the loss, without the logits of a whole batch
  bool skip_padding = false;      ///< true: padded positions are not computed (their results are 0)
  double label_smoothing = 0.0;
  /// Fusion-in-Decoder: input_ids is [B * passages, T], an example's passages one after another.
  /// Each is encoded by itself; the example's decoder attends to all of them as one sequence.
  int64_t passages = 1;
};

/// Every tensor of a ModelInput, for code that treats them alike.
inline constexpr std::array kInputTensors = {&ModelInput::input_ids,
                                             &ModelInput::attention_mask,
                                             &ModelInput::token_type_ids,
                                             &ModelInput::decoder_input_ids,
                                             &ModelInput::decoder_attention_mask,
                                             &ModelInput::pixel_values,
                                             &ModelInput::input_features,
                                             &ModelInput::features,
                                             &ModelInput::decoder_features,
                                             &ModelInput::global_attention_mask,
                                             &ModelInput::start_positions,
                                             &ModelInput::end_positions,
                                             &ModelInput::context_input_ids,
                                             &ModelInput::context_attention_mask,
                                             &ModelInput::doc_scores,
                                             &ModelInput::labels};

}  // namespace heed
