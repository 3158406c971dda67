#pragma once

#include <map>
#include <string>
#include <vector>

#include "heed/pipelines.h"

namespace heed {

/// The tokens that steer a speech model, from generation_config.json and the tokenizer.
struct SpeechTokens {
  int64_t start = -1;  ///< <|startoftranscript|>
  int64_t end = -1;    ///< <|endoftext|>
  int64_t no_timestamps = -1;
  int64_t no_speech = -1;
  int64_t previous = -1;                     ///< <|startofprev|>
  std::map<std::string, int64_t> languages;  ///< "en" to <|en|>; empty for an English-only model
  std::map<std::string, int64_t> tasks;      ///< "transcribe", "translate"
  std::vector<int64_t> suppressed;           ///< never written
  std::vector<int64_t> suppressed_at_begin;
  int64_t max_initial_timestamp = -1;  ///< in steps of 20 ms; -1: no limit
  /// Cross-attention heads (layer, head) that follow the speech.
  std::vector<std::pair<int64_t, int64_t>> alignment_heads;

  int64_t timestamp_begin() const { return no_timestamps + 1; }
};
SpeechTokens speech_tokens(const LoadedModel& loaded);

/// The tokens that a window starts from: <|startoftranscript|>, language and task.
std::vector<int64_t> start_of_transcript(const SpeechTokens& tokens, const std::string& language,
                                         const std::string& task);

/// The likeliest language and its probability among the languages.
std::pair<std::string, double> detect_language(const Model& model, const SpeechTokens& tokens,
                                               const EncoderOutput& encoded);

/// What was written for one window of 30 seconds.
struct SpeechWindow {
  std::vector<int64_t> ids;      ///< text and timestamps, without the end token
  double log_probability = 0.0;  ///< mean, the end token included
  double no_speech_probability = 0.0;
};
/// Decodes greedily by Whisper's rules of timestamps. `prompt` is what comes before the text: the
/// text of earlier windows where it is wanted, and start_of_transcript().
SpeechWindow decode_window(const Model& model, const SpeechTokens& tokens,
                           const EncoderOutput& encoded, const std::vector<int64_t>& prompt);

/// Takes away what may not follow `ids` (what was written so far): Whisper's rules of timestamps,
/// which come in pairs, never go back, and win where together they are likelier than any text.
void apply_timestamp_rules(std::span<float> logits, const std::vector<int64_t>& ids,
                           const SpeechTokens& tokens);

/// When the words of a window are spoken, in seconds from its beginning. `ids` is text without
/// timestamps; `frames` of the spectrogram's window hold sound.
std::vector<SpokenWord> word_times(const LoadedModel& loaded, const SpeechTokens& tokens,
                                   const EncoderOutput& encoded, const std::vector<int64_t>& start,
                                   const std::vector<int64_t>& ids, const std::string& language,
                                   int64_t frames);

}  // namespace heed
