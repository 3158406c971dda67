#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "heed/error.h"
#include "heed/models.h"
#include "heed/text.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

/// Greedy decoding of a trained model prints the text that llama2.c prints.
TEST(Llama2c, Stories260kTellsItsStory) {
  HEED_NEEDS_SHARED("stories260k");
  const auto folder = shared_data("stories260k");
  const auto model = load_model(folder / "stories260K.bin");
  SequenceCache cache = model->new_cache(256);
  const NoGrad no_grad;
  std::vector<int32_t> ids{1};
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
  EXPECT_EQ(model->layers(), 2);
  EXPECT_EQ(model->vocabulary(), 11);
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
  expect_refused(floats_, "n_heads");
  header_ = good;
  header_[0] = 0x616b3432;
  expect_refused(floats_, "version");
}

}  // namespace
}  // namespace heed::test
