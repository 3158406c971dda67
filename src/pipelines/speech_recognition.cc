#include <algorithm>

#include "base/check.h"
#include "base/language.h"
#include "heed/tensor.h"
#include "pipelines/batches.h"
#include "pipelines/speech_decoding.h"
#include "pipelines/speech_features.h"

namespace heed {
namespace {

constexpr int64_t kFramesPerSecond = 100;
constexpr int64_t kFramesPerStep = 2;  // a timestamp counts steps of 20 ms

/// A recording on its way through the model.
class Transcriber {
 public:
  Transcriber(const LoadedModel& loaded, SpeechFeatures& features, const SpeechOptions& options)
      : loaded_(loaded),
        features_(features),
        options_(options),
        tokens_(speech_tokens(loaded)),
        window_(kFramesPerStep *
                loaded.model->config().integer_or("max_source_positions", 1500, 1, 1 << 20)) {
    result_.duration = static_cast<double>(features.samples()) / kSpeechRate;
  }

  Transcript run() {
    int64_t seek = 0;
    while (seek < features_.frames()) {
      seek += one_window(seek);
      if (options_.progress) {
        options_.progress(std::min(seconds(seek), result_.duration), result_.duration);
      }
    }
    for (const SpokenSegment& segment : result_.segments) {
      result_.text += segment.text;
    }
    const size_t begin = result_.text.find_first_not_of(' ');
    result_.text.erase(0, std::min(begin, result_.text.size()));
    return std::move(result_);
  }

 private:
  static double seconds(int64_t frames) { return static_cast<double>(frames) / kFramesPerSecond; }

  void choose_language(const EncoderOutput& encoded) {
    if (!result_.language.empty()) {
      return;
    }
    if (options_.language.empty() || tokens_.languages.empty()) {
      std::tie(result_.language, result_.language_probability) =
          detect_language(*loaded_.model, tokens_, encoded);
    } else {
      result_.language = options_.language;
    }
  }

  std::vector<int64_t> prompt() const {
    std::vector<int64_t> ids;
    if (options_.condition_on_previous && tokens_.previous >= 0 && !written_.empty()) {
      ids.push_back(tokens_.previous);
      ids.insert(ids.end(), written_.begin(), written_.end());
    }
    const std::vector<int64_t> start =
        start_of_transcript(tokens_, result_.language, options_.task);
    ids.insert(ids.end(), start.begin(), start.end());
    return ids;
  }

  /// Transcribes the window at frame `seek`; gives the frames to go on by.
  int64_t one_window(int64_t seek) {
    const int64_t size = std::min(window_, features_.frames() - seek);
    ModelInput input;
    input.input_features = features_.window(seek, window_);
    const EncoderOutput encoded = loaded_.model->encode(input);
    choose_language(encoded);
    const SpeechWindow window = decode_window(*loaded_.model, tokens_, encoded, prompt());
    if (window.no_speech_probability > options_.no_speech_threshold &&
        window.log_probability < options_.log_probability_threshold) {
      return size;
    }
    const size_t before = result_.segments.size();
    const int64_t advance = add_segments(window, seek, size);
    if (options_.word_times) {
      add_words(encoded, before, seek, size);
    }
    return advance;
  }

  bool is_time(int64_t id) const { return id >= tokens_.timestamp_begin(); }
  int64_t frames_of(int64_t id) const { return kFramesPerStep * (id - tokens_.timestamp_begin()); }

  /// Cuts a window's tokens where two timestamps meet.
  int64_t add_segments(const SpeechWindow& window, int64_t seek, int64_t size) {
    const std::vector<int64_t>& ids = window.ids;
    const size_t count = ids.size();
    const bool ends_with_time = count >= 2 && is_time(ids[count - 1]) && !is_time(ids[count - 2]);
    std::vector<size_t> cuts;
    for (size_t i = 1; i < count; ++i) {
      if (is_time(ids[i - 1]) && is_time(ids[i])) {
        cuts.push_back(i);
      }
    }
    if (cuts.empty()) {
      int64_t frames = size;
      for (const int64_t id : ids) {
        frames = is_time(id) && frames_of(id) > 0 ? frames_of(id) : frames;
      }
      add_segment(window, 0, count, seek, seek + frames);
      return size;
    }
    if (ends_with_time) {
      cuts.push_back(count);
    }
    size_t begin = 0;
    for (const size_t cut : cuts) {
      add_segment(window, begin, cut, seek + frames_of(ids[begin]), seek + frames_of(ids[cut - 1]));
      begin = cut;
    }
    const int64_t advance = ends_with_time ? size : frames_of(ids[begin - 1]);
    return advance > 0 ? std::min(advance, size) : size;
  }

  void add_segment(const SpeechWindow& window, size_t begin, size_t end, int64_t from, int64_t to) {
    SpokenSegment segment;
    segment.start = seconds(from);
    segment.end = seconds(to);
    std::vector<TokenId> text;
    for (size_t i = begin; i < end; ++i) {
      segment.ids.push_back(static_cast<TokenId>(window.ids[i]));
      if (window.ids[i] < tokens_.end) {
        text.push_back(static_cast<TokenId>(window.ids[i]));
      }
    }
    segment.text = loaded_.tokenizer.decode(text, true);
    segment.log_probability = window.log_probability;
    segment.no_speech_probability = window.no_speech_probability;
    if (!is_blank(segment.text)) {
      written_.insert(written_.end(), text.begin(), text.end());
      const auto most = static_cast<size_t>(loaded_.model->context_length() / 2 - 1);
      if (written_.size() > most) {
        written_.erase(written_.begin(), written_.end() - static_cast<std::ptrdiff_t>(most));
      }
      result_.segments.push_back(std::move(segment));
    }
  }

  /// Gives the words of the segments from `first` on their times.
  void add_words(const EncoderOutput& encoded, size_t first, int64_t seek, int64_t size) {
    std::vector<int64_t> ids;
    std::vector<size_t> bytes;  // of the text up to the end of each segment
    size_t length = 0;
    for (size_t i = first; i < result_.segments.size(); ++i) {
      for (const TokenId id : result_.segments[i].ids) {
        if (id < tokens_.end) {
          ids.push_back(id);
        }
      }
      length += result_.segments[i].text.size();
      bytes.push_back(length);
    }
    size_t segment = first;
    size_t read = 0;
    for (SpokenWord& word :
         word_times(loaded_, tokens_, encoded,
                    start_of_transcript(tokens_, result_.language, options_.task), ids,
                    result_.language, size)) {
      word.start += seconds(seek);
      word.end += seconds(seek);
      while (segment + 1 < result_.segments.size() && read >= bytes[segment - first]) {
        ++segment;
      }
      read += word.text.size();
      result_.segments[segment].words.push_back(std::move(word));
    }
  }

  const LoadedModel& loaded_;
  SpeechFeatures& features_;
  const SpeechOptions& options_;
  SpeechTokens tokens_;
  int64_t window_;  // frames
  Transcript result_;
  std::vector<int64_t> written_;  // the last text so far, as much as a prompt takes
};

}  // namespace

Transcript transcribe_features(const LoadedModel& loaded, SpeechFeatures& features,
                               const SpeechOptions& options) {
  const SpeechTokens tokens = speech_tokens(loaded);
  if (!options.language.empty() && !tokens.languages.empty() &&
      !tokens.languages.contains(options.language)) {
    std::vector<std::string> names;
    for (const auto& [name, id] : tokens.languages) {
      names.push_back(name);
    }
    fail(ErrorKind::usage, "language", "this model does not know '{}'; it knows {}",
         options.language, fmt::join(names, ", "));
  }
  if (options.task != "transcribe" && options.task != "translate") {
    fail(ErrorKind::usage, "task", "'{}' is not known; use transcribe or translate", options.task);
  }
  const NoGrad no_grad;
  return Transcriber(loaded, features, options).run();
}

SpeechRecognition::SpeechRecognition(LoadedModel model) : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::speech_decoder, kTask,
              say("a speech recognition model (whisper)"), loaded_);
}

Transcript SpeechRecognition::operator()(const std::filesystem::path& audio,
                                         const SpeechOptions& options) const {
  AudioReader reader(audio, kSpeechRate);
  SpeechFeatures features(reader, *loaded_.model);
  return transcribe_features(loaded_, features, options);
}

Transcript SpeechRecognition::from_samples(const Tensor& samples,
                                           const SpeechOptions& options) const {
  check(samples.rank() == 1 && is_floating(samples.dtype()), "transcribe",
        "samples must be floating [N], not {} {}", name_of(samples.dtype()), samples.shape());
  TensorSamples source(samples.to(DType::f32).contiguous());
  SpeechFeatures features(source, *loaded_.model);
  return transcribe_features(loaded_, features, options);
}

}  // namespace heed
