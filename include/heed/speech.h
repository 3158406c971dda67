#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/open_model.h"

// Speech to text: the pipeline automatic-speech-recognition.

namespace heed {

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

}  // namespace heed
