#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/tensor.h"
#include "support/check.h"
#include "support/emulated.h"

namespace heed {
namespace {

/// The most memory this process ever held, in MB.
double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stod(line.substr(6)) / 1024;
    }
  }
  return 0;
}

// The picture of one head on 8,192 tokens: in tiles, as the whole matrix alone would take 256 MB.
TEST(LongInputs, OpenInLittleMemory) {
  constexpr int64_t kTokens = test::sized(8192, 2048);
  constexpr int64_t kRow = kTokens / 8 * 5;
  const NoGrad no_grad;
  const auto model = create_model(
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 256, "n_layer": 2,
          "n_head": 4, "n_positions": 8192, "vocab_size": 512})",
      1);
  ModelInput input;
  input.input_ids = test::random_indices({1, kTokens}, 512);
  input.want_logits = false;
  RecorderOptions options;
  options.layer = 1;
  Recorder recorder(options);
  Tensor picture;
  const double seconds = test::cpu_seconds([&] {
    model->forward(input);
    picture = recorder.at("self", 1).pooled(0, 2, 1024, 1024);
  });
  const RecordedAttention& attention = recorder.at("self", 1);
  const auto [top_index, top_weight] = attention.strongest(0, 2, 16);
  std::printf("%.2f s of processor time, %.0f MB\n", seconds, peak_megabytes());
  EXPECT_LT(peak_megabytes(), 500);
  EXPECT_EQ(picture.shape(), (Shape{1024, 1024}));
  // What the tiles show is what the rows hold.
  const Tensor row = attention.record.weights(0, 2, kRow, kRow + 1, 0, kTokens);
  EXPECT_EQ(top_weight.data<float>()[kRow * 16],
            row.data<float>()[top_index.data<int64_t>()[kRow * 16]]);
}

}  // namespace
}  // namespace heed
