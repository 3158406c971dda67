#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "heed/generate.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/text.h"

// Pipelines that read texts; heed/pipelines.h says what all pipelines share.

namespace heed {

// Opening a model ---------------------------------------------------------------------------------

struct OpenOptions {
  std::filesystem::path tokenizer =
      {};                           ///< a tokenizer file or folder, where none is with the model
  bool may_lack_tokenizer = false;  ///< a folder without a tokenizer is opened without one
  LoadOptions load = {};
};

/// A model and the tokenizer that belongs to it; a model of images has none.
struct LoadedModel {
  std::filesystem::path path;  ///< the model folder or file itself: a run folder's model/
  std::shared_ptr<const Model> model;
  Tokenizer tokenizer;
};

/// Finds a model by what a user would type: a model folder, a run folder, a .gguf or a llama2.c
/// .bin; else a name as on the Hugging Face hub ("openai-community/gpt2", "gpt2@main"), looked up
/// in the local Hugging Face cache. Throws `Error` with the command that downloads it.
HEED_API std::filesystem::path find_model(const std::filesystem::path& name);

/// Opens a model with its tokenizer. Throws `Error` where the tokenizer's ids do not fit the model.
HEED_API LoadedModel open_model(const std::filesystem::path& name, const OpenOptions& options = {});

/// How one call of a pipeline runs.
struct RunOptions {
  int64_t batch_size = 32;  ///< inputs that are computed together; those of like length meet
  /// Called after every batch with the inputs done so far and the number of all.
  std::function<void(int64_t done, int64_t total)> progress = {};
  /// Called with the index of an input and what was done to it, such as truncation.
  std::function<void(size_t input, const std::string& message)> on_warning = {};
  /// Called with the index of an input that cannot be used and the reason; its result is empty and
  /// the others go on. Where this is not set, such an input throws `Error`.
  std::function<void(size_t input, const std::string& message)> on_error = {};
  /// Ends the call early: text generation returns what it has, the others throw `Error`.
  std::stop_token stop = {};
};

// text-generation ---------------------------------------------------------------------------------

struct GenerationOptions {
  int64_t max_new_tokens = 128;
  Sampling sampling = {};
  int64_t num_return_sequences = 1;  ///< samples of each prompt, of different random streams
  std::vector<std::string> stop_strings =
      {};  ///< texts that end a sequence; not part of the result
  std::vector<TokenId> stop_token_ids =
      {};                   ///< tokens that end a sequence, besides the model's own
  bool ignore_eos = false;  ///< the model's own end tokens are never chosen
  /// DRY's sequence breakers, as texts.
  std::vector<std::string> dry_sequence_breakers = default_dry_breakers();
  /// What the text must look like; may be empty.
  std::shared_ptr<const TokenConstraint> constraint = {};
  /// The text is one of its own, such as an answer to a chat's prompt, and does not continue the
  /// prompt: a SentencePiece model's first space is left out.
  bool is_answer = false;
  bool truncate = false;  ///< keep the last tokens of a prompt that leaves no room for new ones
  Speculation speculation = {};
  /// Keys and values of prompts are read from this file, where it exists, and written to it at the
  /// end. Empty: none.
  std::filesystem::path cache_file = {};
  RunOptions run = {.batch_size = 16};
};

/// Gives a request the options of a call and the model's own rules. Where DRY is used,
/// `options.sampling.dry_breakers` must hold the tokens already.
HEED_API void apply_generation_options(const Model& model, const GenerationOptions& options,
                                       Request& request);

struct GeneratedText {
  std::string text;  ///< what was generated, without the prompt
  std::vector<TokenId> ids;
  std::vector<double> log_probabilities;  ///< of each id, before any filter
  FinishReason finish = FinishReason::length;
  size_t input = 0;    ///< index of the prompt
  int64_t sample = 0;  ///< 0 … num_return_sequences - 1
};

/// Continues texts with a decoder, or answers them with an encoder-decoder.
class HEED_API TextGeneration {
 public:
  static constexpr std::string_view kTask = "text-generation";
  using Options = GenerationOptions;
  /// Receives text as it is generated: whole characters, nothing that a stop string may follow.
  using OnText = std::function<void(std::string_view piece)>;
  /// The same for many prompts at once.
  using OnPiece = std::function<void(size_t input, int64_t sample, std::string_view piece)>;

  explicit TextGeneration(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit TextGeneration(LoadedModel model);

  GeneratedText operator()(std::string_view prompt, const GenerationOptions& options = {},
                           const OnText& on_text = nullptr) const;
  /// All samples of all prompts, in order.
  std::vector<GeneratedText> operator()(const std::vector<std::string>& prompts,
                                        const GenerationOptions& options = {},
                                        const OnPiece& on_piece = nullptr) const;
  /// Goes on from tokens, such as a chat template's.
  std::vector<GeneratedText> from_tokens(const std::vector<std::vector<TokenId>>& prompts,
                                         const GenerationOptions& options = {},
                                         const OnPiece& on_piece = nullptr) const;
  /// The tokens that a prompt starts with: the tokenizer's, or a start token for an empty text.
  std::vector<TokenId> tokens_of(std::string_view prompt) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

/// Text generation on demand: next() computes as far as the next piece of text and no further, so
/// that a reader who stops asking stops the generation.
class HEED_API TextGenerationStream {
 public:
  TextGenerationStream(const TextGeneration& pipeline, std::string_view prompt,
                       const GenerationOptions& options = {});
  /// `options` is an object with Hugging Face's names, as of Pipeline.
  TextGenerationStream(const TextGeneration& pipeline, std::string_view prompt,
                       const Json& options);
  ~TextGenerationStream();
  TextGenerationStream(TextGenerationStream&&) noexcept;
  TextGenerationStream& operator=(TextGenerationStream&&) noexcept;

  /// The next piece; none at the end. Throws `Stopped` where `stop` is requested: the text so far
  /// is then the result.
  std::optional<std::string> next(std::stop_token stop = {});
  /// What was generated so far; complete where next() has returned none.
  const GeneratedText& result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// translation -------------------------------------------------------------------------------------

/// A text that beam search found.
struct ScoredText {
  std::string text = {};
  double score = 0.0;  ///< sum of log-probabilities over length ^ length_penalty
  std::vector<TokenId> ids = {};
  /// Cross-attention of each of `ids` over the source's tokens, where it was asked for.
  std::vector<std::vector<double>> alignment = {};
};

struct TranslationOptions {
  BeamOptions beam = {};
  /// Languages of a multilingual model by the names of its tokens: "eng_Latn" (NLLB), "en_XX"
  /// (mBART), "en" or "__en__" (M2M-100). Empty: what the tokenizer and generation_config.json say.
  std::string source_lang = {};
  std::string target_lang = {};
  bool return_alignment = false;
  int64_t alignment_layer = -1;  ///< -1: the last but one, which aligns best (Garg et al. 2019)
  bool truncate = true;          ///< cut sources that are longer than the model's context
  RunOptions run = {.batch_size = 16};
};

/// Turns texts into texts with an encoder-decoder. Results are `beam.n_best` texts per input, best
/// first; a blank input has one blank result.
class HEED_API Translation {
 public:
  static constexpr std::string_view kTask = "translation";
  using Options = TranslationOptions;

  explicit Translation(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit Translation(LoadedModel model);

  std::vector<ScoredText> operator()(std::string_view text,
                                     const TranslationOptions& options = {}) const;
  std::vector<std::vector<ScoredText>> operator()(const std::vector<std::string>& texts,
                                                  const TranslationOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

// text-classification -----------------------------------------------------------------------------

struct LabelScore {
  std::string label;   ///< of config.json's id2label, else LABEL_N
  double score = 0.0;  ///< probability; the number itself where problem_type is regression
  int64_t id = 0;
};

struct ClassificationOptions {
  int64_t top_k = 0;     ///< only the k best labels; 0: all
  bool truncate = true;  ///< cut texts that are longer than the model's context, with a warning
  RunOptions run = {};
};

/// Labels texts. Scores come from a softmax, or label by label from a sigmoid for a multi-label
/// model or a single label; the best comes first.
class HEED_API TextClassification {
 public:
  static constexpr std::string_view kTask = "text-classification";
  using Options = ClassificationOptions;

  explicit TextClassification(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit TextClassification(LoadedModel model);

  std::vector<LabelScore> operator()(std::string_view text,
                                     const ClassificationOptions& options = {}) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::string>& texts,
                                                  const ClassificationOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

// token-classification ----------------------------------------------------------------------------

struct LabelledSpan {
  std::string label;
  double score = 0.0;
  std::string text;      ///< the token, or the part of the input where tokens were aggregated
  TextSpan span;         ///< bytes of the input
  int64_t position = 0;  ///< of the first token in the sequence
};

struct TokenClassificationOptions {
  /// Joins neighbouring tokens of one entity (B-PER, I-PER) and leaves out "O".
  bool aggregate = true;
  bool truncate = true;
  RunOptions run = {};
};

/// Labels the tokens of texts: names, places, parts of speech.
class HEED_API TokenClassification {
 public:
  static constexpr std::string_view kTask = "token-classification";
  using Options = TokenClassificationOptions;

  explicit TokenClassification(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit TokenClassification(LoadedModel model);

  std::vector<LabelledSpan> operator()(std::string_view text,
                                       const TokenClassificationOptions& options = {}) const;
  std::vector<std::vector<LabelledSpan>> operator()(
      const std::vector<std::string>& texts, const TokenClassificationOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

// fill-mask ---------------------------------------------------------------------------------------

struct MaskCandidate {
  std::string token;  ///< as text: decoded, without the space in front of it
  TokenId id = 0;
  double probability = 0.0;
};
/// One masked token of a text and what may stand there, most probable first.
struct MaskedToken {
  int64_t position = 0;  ///< in the sequence of tokens, special ones included
  std::vector<MaskCandidate> candidates;
};

struct FillMaskOptions {
  int64_t top_k = 5;
  RunOptions run = {};
};

/// Predicts masked tokens. The mask is written [MASK] or `<mask>`, whatever the model calls it.
class HEED_API FillMask {
 public:
  static constexpr std::string_view kTask = "fill-mask";
  using Options = FillMaskOptions;

  explicit FillMask(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit FillMask(LoadedModel model);

  std::vector<MaskedToken> operator()(std::string_view text,
                                      const FillMaskOptions& options = {}) const;
  std::vector<std::vector<MaskedToken>> operator()(const std::vector<std::string>& texts,
                                                   const FillMaskOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

// feature-extraction ------------------------------------------------------------------------------

enum class Pooling {
  mean,  ///< of all tokens
  cls,   ///< the first token
  max,   ///< of each feature over all tokens
  /// The model's own pooler_output, not scaled: vectors that are compared by inner product (DPR).
  pooler,
};

/// "mean", "cls", "max" or "pooler"; an error for anything else.
HEED_API Pooling pooling_from_name(std::string_view name);
HEED_API std::string_view name_of(Pooling pooling);

struct FeatureOptions {
  std::optional<Pooling> pooling = {};  ///< default: the model's own (see FeatureExtraction)
  std::optional<bool> normalize = {};   ///< scale to length 1; default: the model's own
  bool truncate = true;                 ///< cut texts that are too long, with a warning
  int64_t max_length = 0;               ///< most tokens of a text; 0: the model's own limit
  RunOptions run = {};
};

/// Turns texts into vectors with any encoder, fine-tuned ones included. Where the folder has
/// sentence-transformers' modules.json, its pooling, its normalisation and its max_seq_length are
/// the defaults; else the mean of all tokens, scaled to length 1. DPR's encoders give their pooler.
class HEED_API FeatureExtraction {
 public:
  static constexpr std::string_view kTask = "feature-extraction";
  using Options = FeatureOptions;

  explicit FeatureExtraction(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit FeatureExtraction(LoadedModel model);

  Tensor operator()(std::string_view text, const FeatureOptions& options = {}) const;  ///< [H]
  /// f32 [texts, H]; zeros for a text that could not be used.
  Tensor operator()(const std::vector<std::string>& texts,
                    const FeatureOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }
  Pooling default_pooling() const { return pooling_; }
  bool default_normalize() const { return normalize_; }
  /// Numbers per vector. Throws `Error` where a model without pooler is asked for its pooler's.
  int64_t dimension(Pooling pooling) const;

 private:
  LoadedModel loaded_;
  Pooling pooling_ = Pooling::mean;
  bool normalize_ = true;
  int64_t max_length_ = 0;  // 0: no limit
};

}  // namespace heed
