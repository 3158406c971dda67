// Models whose attention is sparse or implicit, on texts as long as ordinary ones: by tiles, in
// memory that does not grow with the square of the length.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/base64.h"
#include "base/file.h"
#include "heed/io.h"
#include "heed/serve.h"
#include "io/json.h"
#include "support/data.h"
#include "support/emulated.h"

namespace heed {
namespace {

// A billion pairs take minutes without optimisation.
constexpr int64_t kLong = test::kSanitized ? 4096 : 32768;
constexpr int64_t kTiles = kLong / 256;
constexpr int64_t kCoarsest = std::bit_width(static_cast<uint64_t>(kTiles)) - 1;

Tokenizer letters() {
  const std::vector<std::string_view> texts{"abcdefgh"};
  TokenizerTraining training;
  training.kind = TokenizerKind::character;
  training.special_tokens = {"<unk>"};
  return train_tokenizer(std::span<const std::string_view>(texts), training);
}

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
  void open(int64_t length, const std::string& more = "") {
    std::string text;
    for (int64_t i = 0; i < length; ++i) {
      text += static_cast<char>('a' + (i * i / 7 + i) % 8);
    }
    const std::string field = length > 0 ? R"(,"text":")" + text + '"' : "";
    trace = post("traces", R"({"model":"m")" + field + more + "}");
    at = "traces/" + trace->string("id");
  }
  struct Tile {
    std::vector<float> values;
    int64_t rows_per_cell = 0;
  };
  Tile tile(const std::string& kind, int64_t layer, int64_t level, int64_t row, int64_t column,
            int64_t head = 1) {
    const Json made = post(at + "/tile", fmt::format(R"({{"kind":"{}","layer":{},"head":{},)"
                                                     R"("what":"weights","level":{},"row":{},)"
                                                     R"("column":{}}})",
                                                     kind, layer, head, level, row, column));
    const std::string bytes = decode_base64(made.at("values").string("data"), "values");
    Tile result{std::vector<float>(bytes.size() / sizeof(float)),
                made.integer("rows_per_cell", 1, 1 << 20)};
    std::memcpy(result.values.data(), bytes.data(), bytes.size());
    return result;
  }
  std::optional<Json> trace;
  std::string at;

 private:
  Explorer explorer_;
};

/// A golden model's configuration for longer texts, with fresh weights. Attention's sizes are those
/// of the paper, so that windows and blocks are met as they are.
std::shared_ptr<const Model> longer(const std::string& name, int64_t positions) {
  const auto file = test::golden("models/" + name) / "config.json";
  JsonBuilder config(Json::parse(read_file(file), "config.json"));
  config.set("max_position_embeddings", positions)
      .set("max_encoder_position_embeddings", positions);
  config.set("segment_means_seq_len", int64_t{128}).set("num_landmarks", int64_t{64});
  config.set("block_size", int64_t{64}).set("attention_window", int64_t{256});
  return create_model(config.dump(), 7);
}

int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class Sparse : public testing::TestWithParam<const char*> {};

TEST_P(Sparse, TilesAreTheStrongestOfFinerOnes) {
  Asked asked(longer(GetParam(), 4200));
  asked.open(4096);
  const std::string kind = asked.trace->at("attentions")[0].string("kind");
  const Json shown = asked.trace->at("attentions")[0];
  ASSERT_EQ(shown.integer("queries", 1, 9999), 4096);
  ASSERT_EQ(shown.integer("keys", 1, 9999), 4096);
  const Asked::Tile coarse = asked.tile(kind, 1, 4, 0, 0);
  ASSERT_EQ(coarse.values.size(), 256U * 256U);
  // The finest tiles along the diagonal, at the edge and in a corner.
  for (const auto& [row, column] : {std::pair<int64_t, int64_t>{7, 7}, {15, 0}, {3, 15}, {0, 0}}) {
    const std::vector<float> fine = asked.tile(kind, 1, 0, row, column).values;
    ASSERT_EQ(fine.size(), 256U * 256U);
    std::vector<float> pooled(16 * 16, 0.0F);
    for (size_t i = 0; i < fine.size(); ++i) {
      float& cell = pooled[i / 256 / 16 * 16 + i % 256 / 16];
      cell = std::max(cell, fine[i]);
    }
    for (size_t i = 0; i < pooled.size(); ++i) {
      const size_t cell = (static_cast<size_t>(row) * 16 + i / 16) * 256 +
                          static_cast<size_t>(column) * 16 + i % 16;
      EXPECT_LE(coarse.values[cell], pooled[i] + 1e-6F) << i;
      if (coarse.rows_per_cell == 16) {
        EXPECT_NEAR(coarse.values[cell], pooled[i], 1e-6F) << i;
      }
    }
  }
  // Every row of weights adds up to one.
  double sum = 0;
  for (int64_t column = 0; column < 16; ++column) {
    const std::vector<float> part = asked.tile(kind, 1, 0, 8, column).values;
    for (size_t i = 0; i < 256; ++i) {
      sum += part[100 * 256 + i];
    }
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

TEST_P(Sparse, OpensALongTextInBoundedMemory) {
  HEED_SKIP_EMULATED("a billion pairs of tokens");
  const int64_t before = peak_kilobytes();
  Asked asked(longer(GetParam(), kLong + 8));
  asked.open(kLong);
  const Json shown = asked.trace->at("attentions")[0];
  const std::string kind = shown.string("kind");
  ASSERT_EQ(shown.integer("queries", 1, 99999), kLong);
  ASSERT_EQ(shown.integer("keys", 1, 99999), kLong);
  asked.post(asked.at + "/heads", fmt::format(R"({{"kind":"{}","layer":0}})", kind));
  const Asked::Tile whole = asked.tile(kind, 0, kCoarsest, 0, 0);
  EXPECT_EQ(whole.values.size(), 256U * 256U);
  float diagonal = 0;
  for (size_t i = 0; i < 256; ++i) {
    diagonal = std::max(diagonal, whole.values[i * 257]);
  }
  EXPECT_GT(diagonal, 0.0F);
  const std::vector<float> last = asked.tile(kind, 1, 0, kTiles - 1, kTiles - 1).values;
  EXPECT_GT(*std::max_element(last.begin(), last.end()), 0.0F);
  asked.post(asked.at + "/rows",
             fmt::format(R"({{"kind":"{}","layer":1,"head":0,"queries":[{},{}],"top_k":8}})", kind,
                         kLong - 1, kLong));
  asked.post(asked.at + "/head",
             fmt::format(R"({{"kind":"{}","layer":1,"head":0,"queries":[{},{}],"keys":[{},{}]}})",
                         kind, kLong - 256, kLong, kLong - 256, kLong));
  // One byte for each pair of tokens would be a gigabyte.
  EXPECT_LT(peak_kilobytes() - before, 700 << 10);
}

INSTANTIATE_TEST_SUITE_P(Families, Sparse,
                         testing::Values("longformer_classify", "longformer_mlm", "big_bird_mlm",
                                         "heed_performer_lm", "heed_performer_mlm", "t5_relu",
                                         "mpnet_mlm", "bloom", "falcon_alibi", "deberta_mlm"),
                         [](const auto& of) { return std::string(of.param); });

TEST(LongText, LandmarksStandForAnyNumberOfTokens) {
  Asked asked(longer("nystromformer_mlm", kLong + 8));
  asked.open(kLong);
  EXPECT_EQ(asked.trace->at("attentions")[0].integer("queries", 1, 99999), 64);
  const Asked::Tile tile = asked.tile("self", 0, kCoarsest, 0, 0);
  EXPECT_EQ(tile.values.size(), static_cast<size_t>((64 + kTiles - 1) / kTiles * 256));
}

TEST(LongText, AnEdgeOfALongTextCanBeCut) {
  Asked asked(longer("longformer_mlm", kLong + 8));
  asked.open(std::min<int64_t>(kLong, 8192), R"(,"top_k":3)");
  const Json strongest = asked.post(
      asked.at + "/rows", R"({"kind":"self","layer":0,"head":0,"queries":[0,1],"top_k":1})");
  const std::string bytes = decode_base64(strongest.at("index").string("data"), "index");
  int32_t key = 0;
  std::memcpy(&key, bytes.data(), sizeof key);
  const Json cut = asked.post(
      asked.at + "/experiment",
      fmt::format(R"({{"interventions":[{{"type":"edge","kind":"self","layer":0,"head":-1,)"
                  R"("query":0,"key":{},"mode":"cut"}}],"position":0}})",
                  key));
  EXPECT_GT(cut.at("kl").number(), 0.0);
}

}  // namespace
}  // namespace heed
