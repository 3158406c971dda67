#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/file.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/text.h"
#include "support/check.h"
#include "support/data.h"
#include "support/faults.h"

namespace heed::test {
namespace {

/// Greedy decoding of a trained model prints the text that llama2.c prints.
TEST(Llama2c, Stories260kTellsItsStory) {
  HEED_NEEDS_SHARED("stories260k");
  const auto folder = shared_data("stories260k");
  const auto model = load_model(folder / "stories260K.bin");
  SequenceCache cache = model->new_cache(256);
  const NoGrad no_grad;
  std::vector<TokenId> ids{1};
  constexpr int kTokens = 200;
  for (int i = 0; i < kTokens; ++i) {
    Pass pass;
    pass.layout = Layout::equal(1, 1);
    pass.caches = {&cache};
    const Tensor rows = model->decode(Tensor::from({int64_t{ids.back()}}, {1}), pass);
    const auto next = static_cast<int32_t>(argmax(model->logits(rows), 1).item());
    if (next == 1) {
      break;
    }
    ids.push_back(next);
  }
  const Tokenizer tokenizer = Tokenizer::load(folder / "tok512.bin");
  std::string expected = read_file(folder / "expected_stdout_t0_n200.txt");
  expected.erase(expected.find_last_not_of('\n') + 1);
  const std::string told = tokenizer.decode(ids);
  EXPECT_EQ(told.substr(0, expected.size()), expected);
}

class Llama2cFaults : public testing::Test {
 protected:
  /// Two layers of width 8, two heads, one of keys; not shared.
  std::vector<int32_t> header_ = {8, 12, 2, 2, 1, -11, 16};
  int64_t floats_ = 11 * 8 + 2 * 8 + 2 * (8 * 8 + 4 * 8 + 4 * 8 + 8 * 8) + 2 * 8 + 2 * 3 * 12 * 8 +
                    8 + 16 * 4 + 11 * 8;
  TemporaryFolder folder_;

  std::filesystem::path write(int64_t floats) {
    std::string bytes(reinterpret_cast<const char*>(header_.data()), header_.size() * 4);
    const std::vector<float> values(static_cast<size_t>(floats), 0.25f);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    write_file_atomically(folder_ / "model.bin", bytes);
    return folder_ / "model.bin";
  }
  void expect_refused(int64_t floats, const std::string& word) {
    try {
      load_model(write(floats));
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("model.bin"), std::string::npos) << error.what();
    }
  }
};

TEST_F(Llama2cFaults, TheFileItselfIsGood) {
  const auto model = load_model(write(floats_));
  EXPECT_EQ(model->num_layers(), 2);
  EXPECT_EQ(model->vocab_size(), 11);
}

TEST_F(Llama2cFaults, CutOrTooLong) {
  expect_refused(floats_ - 1, "ends");
  expect_refused(floats_ + 1, "more");
  expect_refused(0, "ends");
}

TEST_F(Llama2cFaults, NumbersOutOfRange) {
  const std::vector<int32_t> good = header_;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int32_t value : {0, INT32_MIN, INT32_MAX}) {
      header_ = good;
      header_[i] = value;
      expect_refused(floats_, "");
    }
  }
  header_ = good;
  header_[3] = 3;
  expect_refused(floats_, "dim 8 is not n_heads 3 of an even width");
  header_ = good;
  header_[0] = 6;
  expect_refused(floats_, "dim 6 is not n_heads 2 of an even width");
}

/// The model of the other tests with random weights, written as versions 0, 1 and 2.
class Llama2cVersions : public testing::Test {
 protected:
  static constexpr int64_t kWidth = 8, kInner = 12, kLayers = 2, kVocabulary = 11, kContext = 16;
  static constexpr int64_t kGroup = 4;

  /// One tensor of the file.
  struct Part {
    std::vector<float> values;
    bool matrix;
  };
  Part part(int64_t rows, int64_t columns) {
    Part made;
    made.matrix = rows > 1;
    for (int64_t i = 0; i < rows * columns; ++i) {
      const double value = random_.normal() * 0.3 + (rows > 1 ? 0.0 : 1.0);
      made.values.push_back(static_cast<float>(value));
    }
    if (made.matrix) {  // as version 2 keeps them, so that all versions mean the same
      for (size_t g = 0; g < made.values.size(); g += kGroup) {
        const float scale = scale_of(&made.values[g]);
        for (size_t i = g; i < g + kGroup; ++i) {
          made.values[i] = std::round(made.values[i] / scale) * scale;
        }
      }
    }
    return made;
  }
  static float scale_of(const float* group) {
    float most = 0;
    for (int64_t i = 0; i < kGroup; ++i) {
      most = std::max(most, std::abs(group[i]));
    }
    return most / 127.0f;
  }

  /// The same kind of tensor of every layer.
  std::vector<Part> layers(int64_t rows, int64_t columns) {
    std::vector<Part> all;
    for (int64_t i = 0; i < kLayers; ++i) {
      all.push_back(part(rows, columns));
    }
    return all;
  }

  template <class T>
  static void put(std::string& bytes, const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_part(std::string& bytes, const Part& part, int version) {
    if (version < 2 || !part.matrix) {
      for (const float value : part.values) {
        put(bytes, value);
      }
      return;
    }
    std::string scales;
    for (size_t g = 0; g < part.values.size(); g += kGroup) {
      const float scale = scale_of(&part.values[g]);
      put(scales, scale);
      for (size_t i = g; i < g + kGroup; ++i) {
        bytes.push_back(static_cast<char>(std::lround(part.values[i] / scale)));
      }
    }
    bytes += scales;
  }
  std::string numbers(int32_t vocabulary) const {
    std::string bytes;
    for (const int64_t value :
         {kWidth, kInner, kLayers, int64_t{2}, int64_t{1}, int64_t{vocabulary}, kContext}) {
      put(bytes, static_cast<int32_t>(value));
    }
    return bytes;
  }

  std::string file(int version, bool shared) const {
    std::string bytes;
    const auto add = [&](const std::vector<Part>& parts) {
      for (const Part& each : parts) {
        put_part(bytes, each, version);
      }
    };
    if (version == 0) {
      bytes = numbers(static_cast<int32_t>(shared ? kVocabulary : -kVocabulary));
      add({embedding_});
      add(first_norms_);
      for (const auto* parts : {&q_, &k_, &v_, &o_, &second_norms_, &gate_, &down_, &up_}) {
        add(*parts);
      }
      add({norm_});
      bytes.append(static_cast<size_t>(kContext * kWidth / 2) * sizeof(float), '\0');
    } else {
      put(bytes, uint32_t{0x616b3432});
      put(bytes, version);
      bytes += numbers(kVocabulary);
      bytes.push_back(shared ? 1 : 0);
      if (version == 2) {
        put(bytes, static_cast<int32_t>(kGroup));
      }
      bytes.resize(256, '\0');
      add(first_norms_);
      add(second_norms_);
      add({norm_, embedding_});
      for (const auto* parts : {&q_, &k_, &v_, &o_, &gate_, &down_, &up_}) {
        add(*parts);
      }
    }
    if (!shared) {
      add({head_});
    }
    return bytes;
  }

  std::unique_ptr<Model> load(const std::string& bytes) {
    write_file_atomically(folder_ / "model.bin", bytes);
    return load_model(folder_ / "model.bin");
  }
  void refused(const std::string& bytes, const std::string& word) {
    write_file_atomically(folder_ / "model.bin", bytes);
    expect_bad_file(folder_ / "model.bin", word, [](const auto& path) { load_model(path); });
  }

  Random random_{5};
  Part embedding_ = part(kVocabulary, kWidth);
  std::vector<Part> first_norms_ = layers(1, kWidth), second_norms_ = layers(1, kWidth);
  std::vector<Part> q_ = layers(8, kWidth), k_ = layers(4, kWidth), v_ = layers(4, kWidth),
                    o_ = layers(8, kWidth);
  std::vector<Part> gate_ = layers(kInner, kWidth), down_ = layers(kWidth, kInner),
                    up_ = layers(kInner, kWidth);
  Part norm_ = part(1, kWidth), head_ = part(kVocabulary, kWidth);
  TemporaryFolder folder_;
};

TEST_F(Llama2cVersions, AllGiveTheSameLogits) {
  ModelInput input;
  input.input_ids = Tensor::from<int64_t>({1, 5, 3, 9, 2}, {1, 5});
  const NoGrad no_grad;
  for (const bool shared : {true, false}) {
    const Tensor expected = load(file(0, shared))->forward(input).logits;
    expect_same_bits(load(file(1, shared))->forward(input).logits, expected, "version 1");
    expect_close(load(file(2, shared))->forward(input).logits, expected, {1e-5, 1e-5}, "version 2");
  }
}

/// Values of version 2 are its whole numbers times its scales, to the bit.
TEST_F(Llama2cVersions, QuantisedWeightsAreExact) {
  const auto model = load(file(2, true));
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.name == "model.embed_tokens.weight") {
      const std::vector<float> got = parameter.tensor.to_vector<float>();
      for (size_t i = 0; i < got.size(); ++i) {
        const float scale = scale_of(&embedding_.values[i / kGroup * kGroup]);
        ASSERT_EQ(got[i], std::round(embedding_.values[i] / scale) * scale) << i;
      }
      return;
    }
  }
  FAIL() << "no embedding";
}

TEST_F(Llama2cVersions, RefuseWhatMakesNoSense) {
  for (const int version : {1, 2}) {
    const std::string good = file(version, false);
    for (const size_t length : {size_t{3}, size_t{7}, size_t{20}, size_t{36}, size_t{200},
                                size_t{256}, good.size() - 1}) {
      refused(good.substr(0, length), length < 41 ? "too short" : "ends");
    }
    refused(good + "x", "1 bytes more");
    std::string bad = good;
    for (const int32_t other : {0, 3, -1, INT32_MAX}) {
      std::memcpy(bad.data() + 4, &other, sizeof other);
      refused(bad, "version");
    }
    for (size_t field = 0; field < 7; ++field) {
      for (const int32_t value : {0, -5, INT32_MIN, INT32_MAX}) {
        bad = good;
        std::memcpy(bad.data() + 8 + 4 * field, &value, sizeof value);
        refused(bad, "expected 1 to 16777216");
      }
    }
    for (size_t field = 0; field < 7; ++field) {  // large, and no multiple of anything
      bad = good;
      const int32_t value = 1 << 24;
      std::memcpy(bad.data() + 8 + 4 * field, &value, sizeof value);
      if (field != 6) {  // the context takes no room in these versions
        refused(bad, "");
      }
    }
    bad = good;
    bad[36] = 2;
    refused(bad, "shared_classifier");
  }
}

TEST_F(Llama2cVersions, RefuseGroupsAndScalesThatMakeNoSense) {
  const std::string good = file(2, true);
  for (const auto& [group, word] :
       {std::pair{0, "group_size"}, {-4, "group_size"}, {3, "multiple"}, {16, "multiple"}}) {
    std::string bad = good;
    const int32_t value = group;
    std::memcpy(bad.data() + 37, &value, sizeof value);
    refused(bad, word);
  }
  for (const float scale :
       {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::string bad = good;
    std::memcpy(bad.data() + bad.size() - sizeof scale, &scale, sizeof scale);
    refused(bad, "scale");
  }
}

}  // namespace
}  // namespace heed::test
