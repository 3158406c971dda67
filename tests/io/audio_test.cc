#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numbers>
#include <random>
#include <span>

#include "base/file.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "io/audio_reader.h"
#include "io/resample_audio.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

void put(std::string& bytes, uint32_t value, int size) {
  for (int i = 0; i < size; ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i)));
  }
}

/// 16-bit WAV of a sine in each channel, `amplitude` of the first and 0 in the others.
std::string wav(int channels, int rate, int frames, double hertz) {
  std::string data;
  for (int i = 0; i < frames; ++i) {
    const double value = 20000.0 * std::sin(2.0 * std::numbers::pi * hertz * i / rate);
    for (int channel = 0; channel < channels; ++channel) {
      put(data, static_cast<uint32_t>(channel == 0 ? std::lround(value) : 0), 2);
    }
  }
  std::string bytes = "RIFF";
  put(bytes, static_cast<uint32_t>(36 + data.size()), 4);
  bytes += "WAVEfmt ";
  put(bytes, 16, 4);
  put(bytes, 1, 2);
  put(bytes, static_cast<uint32_t>(channels), 2);
  put(bytes, static_cast<uint32_t>(rate), 4);
  put(bytes, static_cast<uint32_t>(rate * channels * 2), 4);
  put(bytes, static_cast<uint32_t>(channels * 2), 2);
  put(bytes, 16, 2);
  bytes += "data";
  put(bytes, static_cast<uint32_t>(data.size()), 4);
  return bytes + data;
}

TEST(Audio, SamplesOfTheSameRateAreKept) {
  const Tensor samples = decode_audio(wav(1, 16000, 1000, 440.0), "a.wav");
  ASSERT_EQ(samples.numel(), 1000);
  for (int64_t i = 0; i < 1000; ++i) {
    const double value = std::lround(
        20000.0 * std::sin(2.0 * std::numbers::pi * 440.0 * static_cast<double>(i) / 16000.0));
    EXPECT_FLOAT_EQ(samples.data<float>()[i], static_cast<float>(value / 32768.0));
  }
}

TEST(Audio, ChannelsAreAveraged) {
  const Tensor one = decode_audio(wav(1, 16000, 300, 440.0), "a.wav");
  const Tensor four = decode_audio(wav(4, 16000, 300, 440.0), "a.wav");
  ASSERT_EQ(four.numel(), 300);
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_NEAR(four.data<float>()[i], one.data<float>()[i] / 4.0f, 1e-7);
  }
}

TEST(Audio, OtherRatesAreResampledToTheSameSound) {
  for (const int rate : {8000, 22050, 44100, 48000}) {
    const Tensor samples = decode_audio(wav(1, rate, rate / 2, 440.0), "a.wav");
    ASSERT_NEAR(static_cast<double>(samples.numel()), 8000.0, 4.0) << rate;
    double largest = 0.0;
    for (int64_t i = 400; i < 7600; ++i) {  // the ends ring
      const double wanted =
          20000.0 / 32768.0 *
          std::sin(2.0 * std::numbers::pi * 440.0 * static_cast<double>(i) / 16000.0);
      largest = std::max(largest, std::abs(samples.data<float>()[i] - wanted));
    }
    EXPECT_LT(largest, 2e-3) << rate;
  }
}

/// A sine of `frequency` Hz at `rate` samples per second, brought to 16 kHz in blocks.
std::vector<float> resampled(int rate, double frequency, int64_t samples, int64_t block) {
  std::vector<float> input;
  for (int64_t i = 0; i < samples; ++i) {
    input.push_back(static_cast<float>(
        std::sin(2.0 * std::numbers::pi * frequency * static_cast<double>(i) / rate)));
  }
  AudioResampler resampler(rate, 16000);
  std::vector<float> out;
  for (int64_t begin = 0; begin <= samples; begin += block) {
    const int64_t end = std::min(samples, begin + block);
    resampler.add(
        std::span(input).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
        begin + block > samples, out);
  }
  return out;
}

TEST(Audio, ResamplingDoesNotDependOnTheBlocks) {
  for (const int rate : {8000, 11025, 22050, 44100, 44101, 96000}) {
    const std::vector<float> whole = resampled(rate, 440.0, rate / 4, rate);
    EXPECT_NEAR(static_cast<double>(whole.size()), 4000.0, 1.0) << rate;
    for (const int64_t block : {1, 100, 4096}) {
      EXPECT_EQ(resampled(rate, 440.0, rate / 4, block), whole)
          << rate << " in blocks of " << block;
    }
  }
}

TEST(Audio, ResamplingKeepsWhatFitsAndRemovesWhatDoesNot) {
  // 44,101 Hz has no simple ratio to 16 kHz: its weights lie between two rows of the table.
  for (const int rate : {44100, 44101, 48000}) {
    for (const double frequency : {100.0, 1000.0, 6000.0}) {
      const std::vector<float> kept = resampled(rate, frequency, rate / 2, 10000);
      for (size_t i = 500; i + 500 < kept.size(); ++i) {
        const double wanted =
            std::sin(2.0 * std::numbers::pi * frequency * static_cast<double>(i) / 16000.0);
        ASSERT_NEAR(kept[i], wanted, 1e-4) << rate << " Hz, " << frequency << " at " << i;
      }
    }
    // Would come back as a tone of 7 kHz.
    const std::vector<float> removed = resampled(rate, 9000.0, rate / 2, 10000);
    for (size_t i = 500; i + 500 < removed.size(); ++i) {
      ASSERT_NEAR(removed[i], 0.0F, 1e-4) << rate << " at " << i;
    }
  }
}

TEST(Audio, TruncatedAndForeignBytesAreErrors) {
  const std::string whole = wav(2, 44100, 3000, 440.0);
  EXPECT_ERROR(decode_audio("", "empty"), "; use WAV, FLAC, OGG or MP3");
  EXPECT_ERROR(decode_audio("no audio at all", "text"), "; use WAV, FLAC, OGG or MP3");
  for (size_t cut = 0; cut < 44; ++cut) {
    try {
      decode_audio(std::string_view(whole).substr(0, cut), "cut.wav");
    } catch (const Error&) {
    }
  }
  std::string rate = whole;
  rate[24] = rate[25] = rate[26] = rate[27] = '\xff';
  EXPECT_ERROR(decode_audio(rate, "rate.wav"), "; use WAV, FLAC, OGG or MP3");
}

TEST(Audio, IsReadInBlocksOfOneSize) {
  const std::string bytes = wav(2, 44100, 200000, 440.0);
  AudioReader reader(bytes, "a.wav", 16000);
  for (int reading = 0; reading < 2; ++reading) {
    std::vector<float> all, block;
    while (reader.read(block)) {
      EXPECT_LE(block.size(), 4096U);
      all.insert(all.end(), block.begin(), block.end());
      block.clear();
    }
    EXPECT_FALSE(reader.read(block));
    const Tensor expected = decode_audio(bytes, "a.wav");
    ASSERT_EQ(static_cast<int64_t>(all.size()), expected.numel());
    EXPECT_EQ(std::memcmp(all.data(), expected.data<float>(), all.size() * sizeof(float)), 0);
    reader.rewind();
  }
}

TEST(Audio, NoMoreIsReadThanWasAskedFor) {
  const std::string bytes = wav(1, 16000, 9000, 440.0);
  const Tensor all = decode_audio(bytes, "a.wav");
  const Tensor some = decode_audio(bytes, "a.wav", 16000, 5000);
  ASSERT_EQ(some.numel(), 5000);
  EXPECT_EQ(std::memcmp(some.data<float>(), all.data<float>(), 5000 * sizeof(float)), 0);
  EXPECT_EQ(decode_audio(bytes, "a.wav", 16000, 10000).numel(), 9000);
  // What comes behind is not looked at.
  EXPECT_EQ(decode_audio(bytes.substr(0, 44 + 12000), "a.wav", 16000, 4096).numel(), 4096);
}

std::string seed(const std::string& name) {
  return read_file(source_folder() / "fuzz/seeds/audio" / name);
}

TEST(Audio, ReadsMp3) {
  // One second of 0.25 sin(0.17 k) (1 + sin(k / 1000)), encoded by LAME; gapless.
  const std::string bytes = seed("mono.mp3");
  const Tensor samples = decode_audio(bytes, "a.mp3");
  ASSERT_EQ(samples.numel(), 16000);
  double error = 0.0;
  for (int64_t k = 2000; k < 14000; ++k) {
    const double x = static_cast<double>(k);
    error = std::max(error, std::abs(samples.data<float>()[k] -
                                     0.25 * std::sin(0.17 * x) * (1.0 + std::sin(x / 1000.0))));
  }
  EXPECT_LT(error, 0.02);
  // Tags before it, however many, change nothing.
  std::string tagged = bytes;
  for (int tags = 0; tags < 20; ++tags) {
    tagged = std::string("ID3\x03\0\0\0\0\0\x03", 10) + "tag" + tagged;
    const Tensor same = decode_audio(tagged, "a.mp3");
    ASSERT_EQ(same.numel(), 16000) << tags;
  }
}

TEST(Audio, MalformedMp3IsAnErrorWithoutALibrarysText) {
  const std::string bytes = seed("mono.mp3");
  std::mt19937 random(1);
  int refused = 0;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 60; ++i) {
    std::string broken = bytes.substr(0, bytes.size() - static_cast<size_t>(i % 3 * 700));
    for (size_t k = 4; k < broken.size(); ++k) {
      broken[k] = random() % 10 < 3 ? static_cast<char>(random()) : broken[k];
    }
    try {
      decode_audio(broken, "a.mp3");
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("a.mp3: "), 0U) << error.what();
      ++refused;
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(refused, 0);
}

TEST(Audio, Mp3ThatEndsInTagOrGarbageIsAnError) {
  constexpr const char* kNoAudio = "a.mp3: is no audio that can be read";
  // A tag that is longer than the file, and a file that is shorter than the tag at an end may be.
  EXPECT_ERROR(decode_audio(std::string("ID3\x03\0\0\x7f\x7f\x7f\x7f", 10), "a.mp3"), kNoAudio);
  EXPECT_ERROR(decode_audio("\xff\xfb\x90\x64 and no more", "a.mp3"), kNoAudio);
  EXPECT_ERROR(decode_audio(std::string(20, '\xff'), "a.mp3"), kNoAudio);
  // Sound, and then something else for longer than a decoder looks for the next frame.
  EXPECT_ERROR(decode_audio(seed("mono.mp3").substr(0, 1500) + std::string(100'000, 'x'), "a.mp3"),
               "a.mp3: is broken: its sound cannot be decoded");
  // What only begins like a tag or a frame.
  for (const char* text : {"I am no tag", "IDs are no tag", "\xff\x01 is no frame"}) {
    EXPECT_ERROR(decode_audio(text, "a.mp3"), kNoAudio);
  }
}

/// What libraries see of a file: positions inside it only, and nothing behind an error.
TEST(Audio, CursorStaysInsideTheFile) {
  AudioBytes bytes{"a.wav", 10, [](int64_t offset, void* data, int64_t count) {
                     if (offset + count > 8) {
                       throw Error(ErrorKind::data, "the disk is broken");
                     }
                     std::memset(data, 'x', static_cast<size_t>(count));
                   }};
  AudioCursor cursor(bytes);
  EXPECT_EQ(cursor.seek(-1, SEEK_SET), -1);
  EXPECT_EQ(cursor.seek(1, SEEK_END), -1);
  EXPECT_EQ(cursor.seek(-3, SEEK_END), 7);
  EXPECT_EQ(cursor.seek(-2, SEEK_CUR), 5);
  char data[16];
  EXPECT_EQ(cursor.read(data, 3), 3);
  EXPECT_NO_THROW(cursor.check());
  EXPECT_EQ(cursor.read(data, 16), 0);
  EXPECT_EQ(cursor.seek(0, SEEK_SET), 0);
  EXPECT_EQ(cursor.read(data, 1), 0);
  EXPECT_ERROR(cursor.check(), "the disk is broken");
}

TEST(Audio, AFileThatShrinksWhileItIsReadIsAnError) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.wav", std::ios::binary) << wav(1, 16000, 100000, 440.0);
  AudioReader reader(folder / "a.wav", 16000);
  std::vector<float> samples;
  EXPECT_TRUE(reader.read(samples));
  std::filesystem::resize_file(folder / "a.wav", 50000);
  EXPECT_ERROR(while (reader.read(samples)){}, "a.wav: ended after 50000 of 200044 bytes");
}

TEST(Audio, ReadsARecordingAsFlac) {
  const auto file = shared_data("speech/jfk.flac");
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no " << file;
  }
  EXPECT_NEAR(static_cast<double>(load_audio(file).numel()), 11.0 * 16000.0, 16.0);
}

}  // namespace
}  // namespace heed::test
