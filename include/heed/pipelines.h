#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "heed/generate.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/text.h"

// Pipelines run a model on texts or images, from opening it to readable results, under Hugging
// Face's task names:
//
//   auto generate = heed::pipeline<TextGeneration>("gpt2");
//   generate("The meaning of life is", {.max_new_tokens = 50}, [](std::string_view piece) {
//     std::cout << piece;
//   });
//
// A pipeline is a cheap handle: copies share the model. Calls are const and may come from many
// threads at once; what a call returns does not depend on the others, nor on how its inputs were
// batched.

namespace heed {

// Opening a model ---------------------------------------------------------------------------------

struct OpenOptions {
  /// A tokenizer file or folder; empty: the one beside the model.
  std::filesystem::path tokenizer = {};
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
  int64_t batch_size = 32;  ///< inputs that are computed together, sorted by length
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

/// What all pipelines share. Each is opened by the name or path of a model (see find_model()), or
/// made from a model that is loaded already; both throw `Error` where the model cannot do the task.
class HEED_API ModelPipeline {
 public:
  const LoadedModel& loaded() const { return loaded_; }

 protected:
  explicit ModelPipeline(LoadedModel model) : loaded_(std::move(model)) {}

  LoadedModel loaded_;
};

// text-generation ---------------------------------------------------------------------------------

struct GenerationOptions {
  int64_t max_new_tokens = 128;
  Sampling sampling = {};
  int64_t num_return_sequences = 1;  ///< samples of each prompt, of different random streams
  /// Texts that end a sequence; they are not part of the result.
  std::vector<std::string> stop_strings = {};
  /// Tokens that end a sequence, besides the model's own.
  std::vector<TokenId> stop_token_ids = {};
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
class HEED_API TextGeneration : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "text-generation";
  using Options = GenerationOptions;
  /// Receives text as it is generated: whole characters, nothing that a stop string may follow.
  using OnText = std::function<void(std::string_view piece)>;
  /// The same for many prompts at once.
  using OnPiece = std::function<void(size_t input, int64_t sample, std::string_view piece)>;

  explicit TextGeneration(const std::filesystem::path& model, const OpenOptions& options = {})
      : TextGeneration(open_model(model, options)) {}
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
class HEED_API Translation : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "translation";
  using Options = TranslationOptions;

  explicit Translation(const std::filesystem::path& model, const OpenOptions& options = {})
      : Translation(open_model(model, options)) {}
  explicit Translation(LoadedModel model);

  std::vector<ScoredText> operator()(std::string_view text,
                                     const TranslationOptions& options = {}) const;
  std::vector<std::vector<ScoredText>> operator()(const std::vector<std::string>& texts,
                                                  const TranslationOptions& options = {}) const;
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
class HEED_API TextClassification : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "text-classification";
  using Options = ClassificationOptions;

  explicit TextClassification(const std::filesystem::path& model, const OpenOptions& options = {})
      : TextClassification(open_model(model, options)) {}
  explicit TextClassification(LoadedModel model);

  std::vector<LabelScore> operator()(std::string_view text,
                                     const ClassificationOptions& options = {}) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::string>& texts,
                                                  const ClassificationOptions& options = {}) const;
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
class HEED_API TokenClassification : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "token-classification";
  using Options = TokenClassificationOptions;

  explicit TokenClassification(const std::filesystem::path& model, const OpenOptions& options = {})
      : TokenClassification(open_model(model, options)) {}
  explicit TokenClassification(LoadedModel model);

  std::vector<LabelledSpan> operator()(std::string_view text,
                                       const TokenClassificationOptions& options = {}) const;
  std::vector<std::vector<LabelledSpan>> operator()(
      const std::vector<std::string>& texts, const TokenClassificationOptions& options = {}) const;
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
class HEED_API FillMask : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "fill-mask";
  using Options = FillMaskOptions;

  explicit FillMask(const std::filesystem::path& model, const OpenOptions& options = {})
      : FillMask(open_model(model, options)) {}
  explicit FillMask(LoadedModel model);

  std::vector<MaskedToken> operator()(std::string_view text,
                                      const FillMaskOptions& options = {}) const;
  std::vector<std::vector<MaskedToken>> operator()(const std::vector<std::string>& texts,
                                                   const FillMaskOptions& options = {}) const;
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
class HEED_API FeatureExtraction : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "feature-extraction";
  using Options = FeatureOptions;

  explicit FeatureExtraction(const std::filesystem::path& model, const OpenOptions& options = {})
      : FeatureExtraction(open_model(model, options)) {}
  explicit FeatureExtraction(LoadedModel model);

  Tensor operator()(std::string_view text, const FeatureOptions& options = {}) const;  ///< [H]
  /// f32 [texts, H]; zeros for a text that could not be used.
  Tensor operator()(const std::vector<std::string>& texts,
                    const FeatureOptions& options = {}) const;
  Pooling default_pooling() const { return pooling_; }
  bool default_normalize() const { return normalize_; }
  /// Numbers per vector. Throws `Error` where a model without pooler is asked for its pooler's.
  int64_t dimension(Pooling pooling) const;

 private:
  Pooling pooling_ = Pooling::mean;
  bool normalize_ = true;
  int64_t max_length_ = 0;  // 0: no limit
};

// Images ------------------------------------------------------------------------------------------

/// Labels images: files (PNG, JPEG, netpbm) prepared as preprocessor_config.json asks.
class HEED_API ImageClassification : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "image-classification";
  using Options = ClassificationOptions;

  explicit ImageClassification(const std::filesystem::path& model, const OpenOptions& options = {})
      : ImageClassification(open_model(model, options)) {}
  explicit ImageClassification(LoadedModel model);

  std::vector<LabelScore> operator()(const std::filesystem::path& image,
                                     const ClassificationOptions& options = {}) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::filesystem::path>& images,
                                                  const ClassificationOptions& options = {}) const;
};

struct ZeroShotOptions {
  std::vector<std::string> labels;  ///< what an image may show: "a cat", "a dog"
  /// The text that is compared with an image; {} stands for a label.
  std::string hypothesis_template = "This is a photo of {}.";
  int64_t top_k = 0;  ///< only the k best labels; 0: all
  RunOptions run = {};
};

/// Labels images with texts that the model was not trained for, by comparing both (CLIP, SigLIP).
/// Scores come from a softmax over the labels, or label by label from a sigmoid (SigLIP).
class HEED_API ZeroShotImageClassification : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "zero-shot-image-classification";
  using Options = ZeroShotOptions;

  explicit ZeroShotImageClassification(const std::filesystem::path& model,
                                       const OpenOptions& options = {})
      : ZeroShotImageClassification(open_model(model, options)) {}
  explicit ZeroShotImageClassification(LoadedModel model);

  std::vector<LabelScore> operator()(const std::filesystem::path& image,
                                     const ZeroShotOptions& options) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::filesystem::path>& images,
                                                  const ZeroShotOptions& options) const;
};

struct CaptionOptions {
  BeamOptions beam = {.beams = 1, .max_tokens = 64};
  RunOptions run = {.batch_size = 8};
};

/// Describes images in words. Some models read image files, others features of image regions:
/// floats [regions, F] or [images, regions, F] from a .npy, or from the tensor `features` of a
/// .safetensors.
class HEED_API ImageToText : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "image-to-text";
  using Options = CaptionOptions;

  explicit ImageToText(const std::filesystem::path& model, const OpenOptions& options = {})
      : ImageToText(open_model(model, options)) {}
  explicit ImageToText(LoadedModel model);

  /// The images of a file as the model reads them: one, or as many as there are features of.
  std::vector<ModelInput> inputs_of(const std::filesystem::path& file) const;
  std::vector<ScoredText> operator()(const std::filesystem::path& image,
                                     const CaptionOptions& options = {}) const;
  std::vector<std::vector<ScoredText>> operator()(const std::vector<ModelInput>& images,
                                                  const CaptionOptions& options = {}) const;
};

// Speech ------------------------------------------------------------------------------------------

struct SpeechOptions {
  std::string language = {};           ///< "en", "ko"; empty: detected in the first 30 seconds
  std::string task = "transcribe";     ///< or "translate": into English
  bool word_times = false;             ///< when each word is spoken, from cross-attention
  bool condition_on_previous = false;  ///< a window begins with the text of those before it
  double no_speech_threshold = 0.6;    ///< windows with more than this probability of silence …
  double log_probability_threshold = -1.0;  ///< … and an average below this are left out
  /// Called after every window with the seconds done so far and the seconds of all.
  std::function<void(double done, double total)> progress = {};
};

struct SpokenWord {
  std::string text;  ///< with the space before it, as it was written
  double start = 0.0, end = 0.0;
  double probability = 0.0;
};
/// A part of a recording, in seconds from its beginning.
struct SpokenSegment {
  double start = 0.0, end = 0.0;
  std::string text;
  std::vector<TokenId> ids;      ///< of the text and its timestamps
  double log_probability = 0.0;  ///< mean over the window's tokens
  double no_speech_probability = 0.0;
  std::vector<SpokenWord> words;  ///< where they were asked for
};
struct Transcript {
  std::string text;
  std::string language;               ///< "en"
  double language_probability = 1.0;  ///< 1 where the language was given
  double duration = 0.0;              ///< of the recording, in seconds
  std::vector<SpokenSegment> segments;
};

/// Turns speech into text with Whisper, in windows of 30 seconds that begin where the last complete
/// segment ended. Decoding is greedy, with timestamps. Files are read in windows, too: memory does
/// not depend on how long a recording is.
class HEED_API SpeechRecognition : public ModelPipeline {
 public:
  static constexpr std::string_view kTask = "automatic-speech-recognition";
  using Options = SpeechOptions;

  explicit SpeechRecognition(const std::filesystem::path& model, const OpenOptions& options = {})
      : SpeechRecognition(open_model(model, options)) {}
  explicit SpeechRecognition(LoadedModel model);

  Transcript operator()(const std::filesystem::path& audio,
                        const SpeechOptions& options = {}) const;
  /// The same for samples f32 [N] of one channel at 16 kHz.
  Transcript from_samples(const Tensor& samples, const SpeechOptions& options = {}) const;
};

// Pipelines by name -------------------------------------------------------------------------------

/// A pipeline whose task is known at run time only.
class HEED_API Pipeline {
 public:
  using Any = std::variant<TextGeneration, Translation, TextClassification, TokenClassification,
                           FillMask, FeatureExtraction, ImageClassification,
                           ZeroShotImageClassification, ImageToText, SpeechRecognition>;

  explicit Pipeline(Any any) : any_(std::move(any)) {}

  std::string_view task() const;
  const LoadedModel& loaded() const;
  /// Results as JSON, an array with one entry per input (a text, or the path of an image), in the
  /// shape that Hugging Face's pipelines return. `options` is an object with Hugging Face's names
  /// (max_new_tokens, temperature, num_beams, top_k, …); an unknown one is an error that lists the
  /// known ones.
  Json operator()(const std::vector<std::string>& inputs, const Json& options,
                  const RunOptions& run = {}) const;
  Json operator()(const std::vector<std::string>& inputs, const RunOptions& run = {}) const;

  /// The pipeline itself; throws `Error` where it is of another task.
  template <class P>
  const P& as() const {
    if (const P* found = std::get_if<P>(&any_)) {
      return *found;
    }
    wrong_task(P::kTask);
  }

 private:
  [[noreturn]] void wrong_task(std::string_view wanted) const;

  Any any_;
};

/// Opens a model for a task by Hugging Face's name. Throws `Error` where the model cannot do it:
/// "`translation` needs an encoder-decoder model; this folder holds a decoder (mistral)."
HEED_API Pipeline pipeline(std::string_view task, const std::filesystem::path& model,
                           const OpenOptions& options = {});
template <class P>
P pipeline(const std::filesystem::path& model, const OpenOptions& options = {}) {
  return P(model, options);
}
/// The task names that pipeline() knows.
HEED_API std::vector<std::string> pipeline_tasks();

// Conversations -----------------------------------------------------------------------------------

/// A conversation with a model: messages, answers, and the keys and values of what was said, so
/// that a new message costs only its own tokens.
class HEED_API ChatSession {
 public:
  /// Uses the template of the model's file or folder; an error where it has none and
  /// `chat_template` (a file of Jinja) is empty.
  explicit ChatSession(LoadedModel model, const std::filesystem::path& chat_template = {});
  ~ChatSession();
  ChatSession(ChatSession&&) noexcept;
  ChatSession& operator=(ChatSession&&) noexcept;

  /// Replaces the system message; empty: none. Takes effect with the next answer.
  void set_system(std::string text);
  const std::string& system() const;
  /// Forgets the conversation, not the system message.
  void reset();
  const std::vector<ChatMessage>& messages() const;  ///< without the system message
  /// The whole conversation as a JSON array of messages.
  std::string to_json() const;

  /// Adds the user's message and generates the answer, which is added, too. Where
  /// `options.run.stop` ends it, what was written so far is the answer. Where an error is thrown,
  /// such as for a conversation longer than the model's context, nothing is added.
  GeneratedText ask(std::string_view text, const GenerationOptions& options = {},
                    const TextGeneration::OnText& on_text = nullptr);

  /// Reads keys and values of an earlier conversation from a file, and writes those of this one.
  /// Throws `Error` for the file of another model.
  void load_cache(const std::filesystem::path& file);
  void save_cache(const std::filesystem::path& file) const;

  int64_t prompt_tokens() const;  ///< of the last question, the conversation before it included
  int64_t reused_tokens() const;  ///< of those, how many were not read again
  const LoadedModel& loaded() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The tokens of a conversation, with the beginning of an answer behind it.
HEED_API std::vector<TokenId> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& tmpl,
                                          std::span<const ChatMessage> messages,
                                          const ChatOptions& options = {});

}  // namespace heed
