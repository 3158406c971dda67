#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "heed/io.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/text.h"
#include "heed/train.h"
#include "support/check.h"
#include "support/data.h"
#include "train/task.h"

namespace heed::test {
namespace {

/// A tone of 0.2 s as WAV, 16 bits at 16 kHz.
void write_tone(const std::filesystem::path& path, double hertz) {
  constexpr uint32_t kRate = 16000, kCount = 3200;
  std::string bytes = "RIFF";
  const auto number = [&](uint32_t value, int size) {
    for (int i = 0; i < size; ++i) {
      bytes += static_cast<char>(value >> (8 * i) & 0xFF);
    }
  };
  number(36 + 2 * kCount, 4);
  bytes += "WAVEfmt ";
  number(16, 4), number(1, 2), number(1, 2), number(kRate, 4), number(2 * kRate, 4);
  number(2, 2), number(16, 2);
  bytes += "data";
  number(2 * kCount, 4);
  for (uint32_t i = 0; i < kCount; ++i) {
    const double value = 12000.0 * std::sin(2 * M_PI * hertz * i / kRate);
    number(static_cast<uint32_t>(static_cast<int32_t>(value)) & 0xFFFF, 2);
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Two tones by name, and a small Whisper beside them.
void write_speech(const TemporaryFolder& folder) {
  std::ofstream table(folder / "transcripts.tsv");
  table << "audio\ttext\n";
  for (int i = 0; i < 8; ++i) {
    const std::string name = "tone" + std::to_string(i) + ".wav";
    write_tone(folder / name, i % 2 == 0 ? 300 : 3000);
    table << name << '\t' << (i % 2 == 0 ? "low" : "high") << '\n';
  }
  const std::vector<std::string_view> texts{"low tone", "high tone"};
  TokenizerTraining training;
  training.kind = TokenizerKind::byte_bpe;
  training.vocab_size = 300;
  training.min_frequency = 1;
  const Tokenizer tokenizer = train_tokenizer(std::span<const std::string_view>(texts), training);
  const std::string config =
      R"({"model_type": "whisper", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
          "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
          "decoder_ffn_dim": 32, "num_mel_bins": 8, "max_source_positions": 10,
          "max_target_positions": 12, "pad_token_id": 0, "eos_token_id": 0,
          "decoder_start_token_id": 1, "init_std": 0.2, "vocab_size": )" +
      std::to_string(tokenizer.vocab_size()) + "}";
  save_model(*create_model(config, 3), folder / "whisper");
  tokenizer.save(folder / "whisper");
}

TrainOptions speech_options(const TemporaryFolder& folder) {
  TrainOptions o;
  o.task = "transcribe";
  o.data = folder.path().string();
  o.from = (folder / "whisper").string();
  o.validation_fraction = 0.25;
  o.batch = 4, o.steps = 40, o.warmup = 2, o.eval_every = 40, o.checkpoint_every = 40;
  o.lr = 1e-2;
  o.quiet = true;
  o.out = folder / "run";
  return o;
}

TEST(SpeechTask, BatchesAreSpectrogramsAndTexts) {
  const TemporaryFolder folder;
  write_speech(folder);
  const Task task = make_task(speech_options(folder));
  const Batch batch = task.train->batch(0);
  ASSERT_EQ(batch.input_features.shape(), Shape({4, 8, 20}));
  const int64_t example = task.train->examples_of(0).front();
  LogMelOptions mel;
  mel.mels = 8;
  const Tensor samples = load_audio(folder / ("tone" + std::to_string(example) + ".wav"));
  EXPECT_EQ(samples.numel(), 20 * mel.hop_length);
  expect_same_bits(select(batch.input_features, 0, 0).contiguous(),
                   log_mel_spectrogram(samples, mel), "spectrogram");
  EXPECT_EQ(task.tokenizer.decode(task.tokenizer.encode_ids(" low"), true), " low");
  EXPECT_EQ(batch.labels.size(0), 4);
}

/// Tones are told apart after a few steps: no word of the held-out ones is wrong.
TEST(SpeechTask, FineTunesAWhisper) {
  const TemporaryFolder folder;
  write_speech(folder);
  const TrainResult result = train(speech_options(folder));
  double wer = 1.0;
  for (const auto& [name, value] : result.metrics) {
    wer = name == "val_wer" ? value : wer;
  }
  EXPECT_EQ(wer, 0.0);
}

TEST(SpeechTask, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  const auto message = [](TrainOptions o) {
    try {
      make_task(o);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  TrainOptions o = speech_options(folder);
  EXPECT_NE(message(o).find("has no transcripts.tsv, .csv or .jsonl"), std::string::npos);
  std::ofstream(folder / "transcripts.tsv") << "audio\ttext\nnowhere.wav\tlow\n";
  EXPECT_NE(message(o).find("there is no recording"), std::string::npos);
  o.from.clear();
  EXPECT_NE(message(o).find("task transcribe fine-tunes a speech model"), std::string::npos);
}

}  // namespace
}  // namespace heed::test
