#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heed/io.h"
#include "heed/text.h"
#include "heed/text_pipelines.h"

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

// Images ------------------------------------------------------------------------------------------

/// Labels images: files (PNG, JPEG, netpbm) prepared as preprocessor_config.json asks.
class HEED_API ImageClassification {
 public:
  static constexpr std::string_view kTask = "image-classification";
  using Options = ClassificationOptions;

  explicit ImageClassification(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit ImageClassification(LoadedModel model);

  std::vector<LabelScore> operator()(const std::filesystem::path& image,
                                     const ClassificationOptions& options = {}) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::filesystem::path>& images,
                                                  const ClassificationOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
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
class HEED_API ZeroShotImageClassification {
 public:
  static constexpr std::string_view kTask = "zero-shot-image-classification";
  using Options = ZeroShotOptions;

  explicit ZeroShotImageClassification(const std::filesystem::path& model,
                                       const OpenOptions& options = {});
  explicit ZeroShotImageClassification(LoadedModel model);

  std::vector<LabelScore> operator()(const std::filesystem::path& image,
                                     const ZeroShotOptions& options) const;
  std::vector<std::vector<LabelScore>> operator()(const std::vector<std::filesystem::path>& images,
                                                  const ZeroShotOptions& options) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
};

struct CaptionOptions {
  BeamOptions beam = {.beams = 1, .max_tokens = 64};
  RunOptions run = {.batch_size = 8};
};

/// Describes images in words. Some models read image files, others features of image regions:
/// floats [regions, F] or [images, regions, F] from a .npy, or from the tensor `features` of a
/// .safetensors.
class HEED_API ImageToText {
 public:
  static constexpr std::string_view kTask = "image-to-text";
  using Options = CaptionOptions;

  explicit ImageToText(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit ImageToText(LoadedModel model);

  /// The images of a file as the model reads them: one, or as many as there are features of.
  std::vector<ModelInput> inputs_of(const std::filesystem::path& file) const;
  std::vector<ScoredText> operator()(const std::filesystem::path& image,
                                     const CaptionOptions& options = {}) const;
  std::vector<std::vector<ScoredText>> operator()(const std::vector<ModelInput>& images,
                                                  const CaptionOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
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
/// segment ended. Decoding is greedy, with timestamps.
class HEED_API SpeechRecognition {
 public:
  static constexpr std::string_view kTask = "automatic-speech-recognition";
  using Options = SpeechOptions;

  explicit SpeechRecognition(const std::filesystem::path& model, const OpenOptions& options = {});
  explicit SpeechRecognition(LoadedModel model);

  Transcript operator()(const std::filesystem::path& audio,
                        const SpeechOptions& options = {}) const;
  /// The same for samples f32 [N] of one channel at 16 kHz.
  Transcript from_samples(const Tensor& samples, const SpeechOptions& options = {}) const;
  const LoadedModel& loaded() const { return loaded_; }

 private:
  LoadedModel loaded_;
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
