#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/parallel.h"
#include "data/table.h"
#include "data/targets.h"
#include "heed/data.h"
#include "heed/io.h"

namespace heed {
namespace {

class SpeechLoader final : public Loader {
 public:
  SpeechLoader(const SpeechData& data, int64_t mels, int64_t frames, const TokenShard& texts,
               const SequenceTokens& tokens, const LoaderOptions& options)
      : Loader(options),
        files_(data.files),
        mels_(mels),
        frames_(frames),
        texts_(texts),
        tokens_(tokens) {
    check(texts.sequences() == static_cast<int64_t>(files_.size()), "transcripts",
          "{} for {} recordings", texts.sequences(), files_.size());
    uint64_t value = texts.fingerprint();
    for (const std::filesystem::path& file : files_) {
      std::error_code ignored;
      value = fingerprint_of(file.filename().string(), value);
      value += std::filesystem::file_size(file, ignored);
    }
    set_examples(static_cast<int64_t>(files_.size()), value, true);
  }

 protected:
  int64_t length_of(int64_t example) const override { return texts_.length(example); }

  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch whole;
    fill_targets(whole, texts_, examples, tokens_, options().max_length);
    Batch batch = rank_rows(whole, begin, end);
    batch.input_features = Tensor::empty({end - begin, mels_, frames_});
    for (int64_t row = begin; row < end; ++row) {
      const Tensor one =
          spectrogram(files_[static_cast<size_t>(examples[static_cast<size_t>(row)])]);
      std::memcpy(batch.input_features.data<float>() + (row - begin) * mels_ * frames_,
                  one.data<float>(), static_cast<size_t>(mels_ * frames_) * sizeof(float));
    }
    return batch;
  }

 private:
  /// f32 [mels, frames]; a short recording ends in silence.
  Tensor spectrogram(const std::filesystem::path& file) const {
    LogMelOptions options;
    options.mels = mels_;
    const int64_t wanted = frames_ * options.hop_length;
    const Tensor samples = load_audio(file, options.sample_rate, wanted);
    Tensor window = Tensor::zeros({wanted});
    std::copy_n(samples.data<float>(), samples.numel(), window.data<float>());
    return log_mel_spectrogram(window, options).contiguous();
  }

  std::vector<std::filesystem::path> files_;
  int64_t mels_, frames_;
  TokenShard texts_;
  SequenceTokens tokens_;
};

}  // namespace

SpeechData load_transcripts(const std::string& data) {
  std::filesystem::path file = data;
  check_data(std::filesystem::exists(file), data, "there is no such file or folder");
  if (std::filesystem::is_directory(file)) {
    for (const char* name : {"transcripts.tsv", "transcripts.csv", "transcripts.jsonl"}) {
      if (std::filesystem::exists(std::filesystem::path(data) / name)) {
        file = std::filesystem::path(data) / name;
        break;
      }
    }
    check_data(file != std::filesystem::path(data), data, "has no transcripts.tsv, .csv or .jsonl");
  }
  SpeechData speech;
  const auto table = open_table(file, {"audio", "text"});
  std::vector<std::string> row;
  while (table->next(row)) {
    const std::filesystem::path audio = file.parent_path() / row[0];
    check_data(std::filesystem::exists(audio), table->where(), "there is no recording {}",
               audio.string());
    speech.files.push_back(audio);
    speech.texts.push_back(row[1]);
  }
  check_data(!speech.files.empty(), file.string(), "has no transcripts");
  return speech;
}

std::unique_ptr<Loader> make_speech_loader(const SpeechData& data, int64_t mels, int64_t frames,
                                           const TokenShard& texts, const SequenceTokens& tokens,
                                           const LoaderOptions& options) {
  return std::make_unique<SpeechLoader>(data, mels, frames, texts, tokens, options);
}

}  // namespace heed
