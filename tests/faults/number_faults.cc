// Fault table, lines 76 to 78: numbers that are not finite, f16, rows without a key.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/file.h"
#include "faults/bench.h"
#include "heed/io.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

/// Training of captions for 64 examples of 2 regions with 4 numbers: zeros, and `value` in those
/// from `first` to `last`.
Run caption_training(Bench& bench, const std::string& name, float value, int first, int last,
                     const std::vector<std::string>& more) {
  std::string numbers;
  std::string texts;
  for (int example = 0; example < 64; ++example) {
    for (int i = 0; i < 8; ++i) {
      const float number = example >= first && example <= last ? value : 0.0f;
      numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    texts += example % 2 == 0 ? "a dog runs\n" : "a cat\n";
  }
  const std::string header =
      R"({"features":{"dtype":"F32","shape":[64,2,4],"data_offsets":[0,2048]}})";
  bench.file(name + ".txt", texts);
  std::vector<std::string> all = {"--batch",
                                  "16",
                                  "--steps",
                                  "8",
                                  "--checkpoint-every",
                                  "1",
                                  "--keep",
                                  "20",
                                  "--validation-share",
                                  "0",
                                  "--warmup",
                                  "1",
                                  "--seed",
                                  "3",
                                  "--out",
                                  bench.path(name)};
  all.insert(all.end(), more.begin(), more.end());
  return one_block_training(bench, "caption",
                            bench.file(name + ".safetensors", safetensors(header) + numbers), all);
}

int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

/// True if every number of every checkpoint of a run is finite.
bool all_finite(const fs::path& run) {
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    for (const auto& [name, tensor] : load_safetensors(entry.path() / "model.safetensors")) {
      const float* values = tensor.data<float>();
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        if (!std::isfinite(values[i])) {
          return false;
        }
      }
    }
  }
  return true;
}

void not_finite(Bench& bench) {
  constexpr float kLargest = 3.4028235e38f;
  bench.accepted(caption_training(bench, "one", kLargest, 40, 40, {}));
  const std::string metrics = read_file(bench.path("one") / "metrics.jsonl");
  const int skipped = count_of(metrics, "\"skipped\":true");
  bench.expect(skipped > 0 && skipped < 8, fmt::format("{} of 8 steps are skipped", skipped));
  bench.expect(all_finite(bench.path("one")), "what is not finite is never saved");
  bench.refused(caption_training(bench, "all", kLargest, 0, 63, {"--steps", "40"}),
                {"10 steps in a row", "not finite"}, 1);
  bench.expect(!fs::exists(bench.path("all") / "model"), "there is no model to keep");
  bench.expect(all_finite(bench.path("all")), "nor a checkpoint that is not finite");
}

void half_overflow(Bench& bench) {
  bench.accepted(caption_training(bench, "half", 1e6f, 40, 40, {"--precision", "f16"}));
  const std::string metrics = read_file(bench.path("half") / "metrics.jsonl");
  const int skipped = count_of(metrics, "\"skipped\":true");
  bench.expect(skipped > 0, "a step that overflows f16 is skipped");
  const auto scale = [&](int step) {
    const std::string state = read_file(bench.path("half") / "checkpoints" /
                                        fmt::format("step-{:06}", step) / "state.json");
    return std::stod(state.substr(state.find(':', state.find("\"loss_scale\"")) + 1));
  };
  bench.expect(
      scale(8) * std::pow(2.0, skipped) == scale(1),
      fmt::format("the scale goes from {} to {} in {} skips", scale(1), scale(8), skipped));
  bench.expect(all_finite(bench.path("half")), "what is not finite is never saved");
}

void masked_row(Bench& bench) {
  std::string numbers;
  for (int i = 0; i < 8 + 12 + 12 + 8; ++i) {
    const float number = 0.1f * static_cast<float>(i);
    numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  const std::string header =
      R"({"q":{"dtype":"F32","shape":[1,1,2,4],"data_offsets":[0,32]},)"
      R"("k":{"dtype":"F32","shape":[1,1,3,4],"data_offsets":[32,80]},)"
      R"("v":{"dtype":"F32","shape":[1,1,3,4],"data_offsets":[80,128]},)"
      R"("grad_output":{"dtype":"F32","shape":[1,1,2,4],"data_offsets":[128,160]},)"
      R"("mask":{"dtype":"U8","shape":[1,1,2,3],"data_offsets":[160,166]}})";
  const std::string input = bench.file(
      "masked.safetensors", safetensors(header) + numbers + std::string("\0\0\0\1\1\0", 6));
  for (const std::string kernel : {"reference", "chunked", "flash"}) {
    const std::string out = bench.path(kernel + ".safetensors");
    bench.accepted(
        {.arguments = {"attention", "--input", input, "--output", out, "--kernel", kernel}});
    const TensorMap tensors = load_safetensors(out);
    const auto zeros = [&](const char* name, int64_t count) {
      const float* values = tensors.at(name).data<float>();
      return std::all_of(values, values + count, [](float value) { return value == 0.0f; });
    };
    bench.expect(zeros("output", 4) && zeros("weights", 3) && zeros("grad_q", 4),
                 kernel + ": a query without a key gives zeros");
    for (const auto& [name, tensor] : tensors) {
      const float* values = tensor.data<float>();
      bench.expect(name == "lse" || std::all_of(values, values + tensor.numel(),
                                                [](float value) { return std::isfinite(value); }),
                   kernel + ": " + name + " is finite");
    }
  }
}

}  // namespace

std::vector<Fault> number_faults() {
  return {
      {76, "NaN or Inf loss: skipped, counted, never saved", not_finite},
      {77, "f16 overflow: the scale is halved, the step skipped", half_overflow},
      {78, "fully masked row: zeros", masked_row},
  };
}

}  // namespace heed::test
