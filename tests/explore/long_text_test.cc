#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/base64.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/serve.h"
#include "io/json.h"

namespace heed {
namespace {

constexpr const char* kLlama = R"({"model_type":"%m",
  "hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,
  "num_key_value_heads":2,"head_dim":16,"vocab_size":32,"max_position_embeddings":32768,
  "rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,"hidden_act":"silu",
  "sliding_window":%w})";

Tokenizer letters() {
  const std::vector<std::string_view> texts{"abcdefgh"};
  TokenizerTraining training;
  training.kind = TokenizerKind::character;
  training.special_tokens = {"<unk>"};
  return train_tokenizer(std::span<const std::string_view>(texts), training);
}

/// A server's explorer with one model.
class Asked {
 public:
  explicit Asked(std::shared_ptr<const Model> model)
      : explorer_({"m"}, [own = std::move(model), tokenizer = letters()](const std::string&) {
          return ExplorerModel{.id = "m", .path = {}, .model = own, .tokenizer = tokenizer};
        }) {}

  Json post(const std::string& path, const std::string& body) {
    const Explorer::Answer answer = explorer_.answer("POST", "/heed/v1/" + path, body);
    EXPECT_EQ(answer.status, 200) << path << " " << answer.json.substr(0, 400);
    return Json::parse(answer.json, "answer");
  }
  /// A trace of `length` letters in no simple order.
  Json trace(int64_t length) {
    std::string text;
    for (int64_t i = 0; i < length; ++i) {
      text += static_cast<char>('a' + (i * i / 7 + i) % 8);
    }
    return post("traces", fmt::format(R"({{"model":"m","text":"{}"}})", text));
  }
  std::vector<float> tile(const Json& trace, const std::string& what, int64_t head, int64_t level,
                          int64_t row, int64_t column) {
    const Json made =
        post("traces/" + trace.string("id") + "/tile",
             fmt::format(R"({{"kind":"self","layer":1,"head":{},"what":"{}","level":{},"row":{},)"
                         R"("column":{}}})",
                         head, what, level, row, column));
    rows_per_cell = made.integer("rows_per_cell", 1, 1 << 20);
    const std::string bytes = decode_base64(made.at("values").string("data"), "values");
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  int64_t rows_per_cell = 0;

 private:
  Explorer explorer_;
};

/// `window`: how many positions a query sees; 0: all before it.
std::shared_ptr<const Model> llama(int64_t window = 0) {
  std::string config = kLlama;
  config.replace(config.find("%m"), 2, window > 0 ? "mistral" : "llama");
  config.replace(config.find("%w"), 2, window > 0 ? std::to_string(window) : "null");
  return create_model(config, 5);
}

/// Cells of level 4 from the four tiles of level 3 below them, which read every weight.
std::vector<float> pooled(Asked& asked, const Json& trace, const std::string& what, int64_t head) {
  std::vector<float> result(256 * 256, what == "scores" ? -INFINITY : 0.0F);
  for (int64_t half = 0; half < 4; ++half) {
    const std::vector<float> part = asked.tile(trace, what, head, 3, half / 2, half % 2);
    for (int64_t i = 0; i < 256 * 256; ++i) {
      const int64_t row = half / 2 * 128 + i / 256 / 2, column = half % 2 * 128 + i % 256 / 2;
      float& cell = result[static_cast<size_t>(row * 256 + column)];
      cell = std::max(cell, part[static_cast<size_t>(i)]);
    }
  }
  return result;
}

TEST(LongText, CoarseTilesAreTheLargestOfFinerOnes) {
  for (const int64_t window : {0, 700}) {
    Asked asked(llama(window));
    const Json trace = asked.trace(4096);
    for (const auto& [what, head] : std::vector<std::pair<std::string, int64_t>>{
             {"weights", 1}, {"scores", 2}, {"value_weighted", 3}, {"weights", -1}}) {
      const std::vector<float> expected = pooled(asked, trace, what, head);
      const std::vector<float> coarse = asked.tile(trace, what, head, 4, 0, 0);
      ASSERT_EQ(coarse.size(), expected.size());
      // The mean of the heads costs more: some queries of each cell are read then.
      const bool all = asked.rows_per_cell == 16;
      EXPECT_TRUE(all || head < 0);
      for (size_t i = 0; i < coarse.size(); ++i) {
        if (std::isinf(expected[i])) {
          EXPECT_EQ(coarse[i], expected[i]);
        } else {
          EXPECT_LE(coarse[i], expected[i] + 2e-6F * (1 + std::abs(expected[i]))) << what << i;
          EXPECT_TRUE(!all || coarse[i] >= expected[i] - 2e-6F * (1 + std::abs(expected[i])))
              << what << " " << i;
        }
      }
    }
  }
}

TEST(LongText, FiguresAndPredictionsOfALongText) {
  Asked asked(llama());
  const Json trace = asked.trace(9000);
  EXPECT_EQ(trace.at("sides").at("source").size(), 9000U);
  const Json heads =
      asked.post("traces/" + trace.string("id") + "/heads", R"({"kind":"self","layer":0})");
  EXPECT_GE(heads.integer("rows_sampled", 1, 9000), 24);
  for (const Json& head : heads.at("heads").elements()) {
    const std::string bytes = decode_base64(head.at("thumbnail").string("data"), "thumbnail");
    // Every row of the thumbnail has a weight: its diagonal at least.
    for (size_t row = 0; row < 24; ++row) {
      float most = 0;
      for (size_t i = 0; i < 24; ++i) {
        float value = 0;
        std::memcpy(&value, bytes.data() + (row * 24 + i) * sizeof value, sizeof value);
        most = std::max(most, value);
      }
      EXPECT_GT(most, 0.0F) << row;
    }
  }
}

/// A model whose matrices are quantised, as a GGUF file's would be.
std::shared_ptr<const Model> quantised_llama() {
  const std::shared_ptr<const Model> plain = llama();
  TensorMap tensors;
  for (const Parameter& each : plain->parameters()) {
    const bool matrix = each.tensor.rank() == 2 && each.name.find("embed") == std::string::npos;
    tensors.emplace(each.name,
                    matrix ? quantize(each.tensor.detach(), DType::q8_0) : each.tensor.detach());
  }
  return build_model(plain->config(), std::move(tensors), "quantised");
}

TEST(Quantised, RoundingOfInputsIsAPartAndTheSumIsTheScore) {
  Asked asked(quantised_llama());
  const Json trace = asked.trace(6);
  const std::string path = "traces/" + trace.string("id");
  const Json why =
      asked.post(path + "/why", R"({"kind":"self","layer":1,"head":3,"query":5,"key":2})");
  const std::string bytes = decode_base64(why.at("values").string("data"), "values");
  double sum = 0, size = 0, rounding = 0;
  const size_t keys = why.at("key_parts").size();
  for (size_t i = 0; i < bytes.size() / sizeof(double); ++i) {
    double value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    sum += value;
    size += std::abs(value);
    const bool rounds = why.at("query_parts")[i / keys].string("type") == "rounding" ||
                        why.at("key_parts")[i % keys].string("type") == "rounding";
    rounding += rounds ? std::abs(value) : 0.0;
  }
  const double score = why.at("score").number();
  EXPECT_NEAR(sum, score, 1e-5 * (size + std::abs(score)));
  EXPECT_LE(std::abs(why.at("remainder").number()), 1e-5 * (size + std::abs(score)));
  EXPECT_GT(rounding, 0.0);
  EXPECT_LT(rounding, 0.1 * size);  // a small part, not where everything else went
  // The first layer's heads are parts of their own, as in a model that is not quantised.
  size_t split = 0;
  for (const Json& part : why.at("query_parts").elements()) {
    split += part.string("type") == "head" && part.integer("head", -1, 100) >= 0 ? 1 : 0;
  }
  EXPECT_EQ(split, 4U);
  const Json attribution = asked.post(path + "/attribution", R"({"position":5,"token":3})");
  double logit = attribution.at("remainder").number();
  for (const Json& part : attribution.at("parts").elements()) {
    logit += part.at("value").number();
  }
  EXPECT_NEAR(logit, attribution.at("logit").number(), 1e-5 * (1 + std::abs(logit)));
  EXPECT_LE(std::abs(attribution.at("remainder").number()), 1e-5 * (1 + std::abs(logit)));
}

}  // namespace
}  // namespace heed
