#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <tuple>

#include "base/base64.h"
#include "base/file.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/serve.h"
#include "io/json.h"
#include "models/forward.h"
#include "support/data.h"

namespace heed::test {

inline Tokenizer letters(bool speech) {
  const std::vector<std::string_view> texts{"abcdefgh"};
  TokenizerTraining training;
  training.kind = TokenizerKind::character;
  training.special_tokens = {"<unk>"};
  if (speech) {
    training.special_tokens = {"<unk>", "<|endoftext|>", "<|startoftranscript|>",
                               "<|notimestamps|>"};
  }
  return train_tokenizer(std::span<const std::string_view>(texts), training);
}

inline std::vector<double> doubles(const Json& tensor) {
  const std::string bytes = decode_base64(tensor.string("data"), "tensor");
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A model on the explorer, and what it says about it.
class Page {
 public:
  explicit Page(std::shared_ptr<const Model> model, const std::filesystem::path& path = {})
      : explorer_({"m"}, [this](const std::string&) { return model_; }) {
    model_.id = "m";
    model_.path = path;
    model_.tokenizer = letters(model->kind() == ModelKind::speech_decoder);
    model_.model = std::move(model);
    about =
        Json::parse(explorer_.answer("GET", "/heed/v1/models", "").json, "models").at("models")[0];
  }
  Json post(const std::string& path, const std::string& body, int status = 200) {
    const Explorer::Answer answer = explorer_.answer("POST", "/heed/v1/" + path, body);
    EXPECT_EQ(answer.status, status) << path << " " << body << "\n" << answer.json.substr(0, 300);
    return Json::parse(answer.json, "answer");
  }
  void open(const std::string& text) {
    const std::string field =
        about->at("inputs").boolean("text") ? R"(,"text":")" + text + '"' : "";
    trace = post("traces", R"({"model":"m")" + field + "}");
    at = trace->has("id") ? "traces/" + trace->string("id") : "";
  }
  bool can(const char* what) const { return about->at("can").boolean(what); }

  ExplorerModel model_;
  Explorer explorer_;
  std::optional<Json> about, trace;
  std::string at;
};

/// The last position that stands for a token, a patch or a moment.
inline int64_t last_query(const Json& tokens) {
  auto last = static_cast<int64_t>(tokens.size()) - 1;
  while (last > 0 && tokens[static_cast<size_t>(last)].string("label") == "pad") {
    --last;
  }
  return last;
}

/// The length of head 0's row of an activation such as blocks.0.attn.hook_q; 0 where there is none.
inline double head_length(Page& page, const std::string& name, int64_t row, int64_t heads) {
  for (const Json& each : page.trace->at("activations").elements()) {
    if (each.string("name") == name) {
      const int64_t depth = each.at("shape")[1].integer() / heads;
      const Json answer = page.post(
          page.at + "/activation", fmt::format(R"({{"name":"{}","rows":[{},{}],"columns":[0,{}]}})",
                                               name, row, row + 1, depth));
      const std::string bytes = decode_base64(answer.at("values").string("data"), "tensor");
      std::vector<float> values(bytes.size() / sizeof(float));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
    }
  }
  return 0;
}

/// How large a score of head 0 can be: the lengths of query and key, times the scale. Both are
/// rounded to f32, so that the score of two that are nearly orthogonal is off in proportion to
/// this.
inline double largest_score(Page& page, const Json& attention, int64_t layer, int64_t query) {
  const std::string kind = attention.string("kind");
  for (const Json& about : page.about->at("attentions").elements()) {
    if (about.string("kind") != kind) {
      continue;
    }
    double lengths = about.at("scale").number();
    for (const auto& [letter, row, heads] :
         {std::tuple{'q', query, about.integer("heads", 1, 99)},
          std::tuple{'k', int64_t{0}, about.integer("kv_heads", 1, 99)}}) {
      double longest = 0;
      for (const char* stack : {"", kind == "encoder" ? "encoder." : "decoder."}) {
        longest = std::max(longest,
                           head_length(page,
                                       fmt::format("{}blocks.{}.{}.hook_{}", stack, layer,
                                                   kind == "cross" ? "cross_attn" : "attn", letter),
                                       row, heads));
      }
      lengths *= longest;
    }
    return lengths;
  }
  return 0;
}

/// Steps and Why of every layer: parts of a score add up to it.
inline void check_attentions(Page& page) {
  const Json sides = page.trace->at("sides");
  for (const Json& each : page.trace->at("attentions").elements()) {
    const std::string kind = each.string("kind"), side = each.string("query_side");
    const Json tokens = sides.at(side);
    const bool readout = kind == "readout";
    EXPECT_EQ(each.integer("queries", 1, 99999), readout ? 1 : static_cast<int64_t>(tokens.size()))
        << kind;
    EXPECT_EQ(each.integer("keys", 1, 99999),
              static_cast<int64_t>(sides.at(each.string("key_side")).size()));
    const int64_t query = readout ? 0 : last_query(tokens);
    for (int64_t layer = 0; layer < each.integer("layers", 1, 99); ++layer) {
      const std::string place =
          fmt::format(R"("kind":"{}","layer":{},"head":0,"query":{})", kind, layer, query);
      if (side == "landmarks" || readout) {  // documented: means of tokens, and a choice
        continue;
      }
      if (page.about->string("norm") == "none") {  // documented: an RNN is no stack of blocks
        page.post(page.at + "/steps", "{" + place + "}", 409);
        continue;
      }
      page.post(page.at + "/steps", "{" + place + "}");
      if (!page.can("why")) {
        continue;
      }
      const Json why = page.post(page.at + "/why", "{" + place + R"(,"key":0})");
      if (!why.has("score")) {
        continue;
      }
      double sum = why.at("bias").number(), size = 0;
      for (const double value : doubles(why.at("values"))) {
        sum += value;
        size += std::abs(value);
      }
      const double largest = largest_score(page, each, layer, query);
      EXPECT_NEAR(sum, why.at("score").number(), 1e-5 * size + 1e-6 * largest)
          << kind << " " << layer;
    }
  }
}

/// The prediction, its lens and its parts, and an experiment that changes nothing.
inline void check_answers(Page& page) {
  const Json prediction = page.trace->at("prediction");
  const std::string answers = page.about->string("answers");
  const int64_t position = prediction.integer("position", -1, 99999);
  if (answers == "embedding") {
    EXPECT_EQ(prediction.at("candidates").size(), 0U);
    EXPECT_FALSE(page.can("lens") || page.can("generate"));
    return;
  }
  const Json same = page.post(page.at + "/experiment", R"({"interventions":[]})");
  EXPECT_NEAR(same.at("kl").number(), 0.0, 1e-9);
  // Documented, and named on the page: an angle between two vectors is no sum of parts, and a
  // recurrent network has no residual stream.
  const bool no_parts =
      page.about->string("family") == "image-text" || page.about->string("norm") == "none";
  EXPECT_EQ(page.can("lens"), !no_parts);
  if (no_parts) {
    return;
  }
  const bool numbers = answers == "number";
  const double logit = numbers ? prediction.at("value")[0].number()
                               : prediction.at("candidates")[0].at("logit").number();
  const int64_t token = numbers ? 0 : prediction.at("candidates")[0].integer("id", 0, 1 << 20);
  const Json rows =
      page.post(page.at + "/lens", fmt::format(R"({{"position":{}}})", position)).at("rows");
  const Json last = rows[rows.size() - 1];
  EXPECT_NEAR(
      numbers ? last.at("value")[0].number() : last.at("candidates")[0].at("logit").number(), logit,
      1e-4);
  const Json split = page.post(page.at + "/attribution",
                               fmt::format(R"({{"position":{},"token":{}}})", position, token));
  ASSERT_TRUE(split.has("parts"));
  EXPECT_NEAR(split.at("logit").number(), logit, 1e-4);
  double sum = split.at("remainder").number(), others = 0;
  for (const Json& part : split.at("parts").elements()) {
    sum += part.at("value").number();
    others += part.at("part").string("type") == "bias" ? 0.0 : std::abs(part.at("value").number());
  }
  EXPECT_NEAR(sum, logit, 1e-4);
  EXPECT_GT(others, 0.0);
  EXPECT_NEAR(split.at("remainder").number(), 0.0,
              (split.boolean("integrated") ? 2e-3 : 1e-4) * (1 + others));
}

inline void check_family(Page& page) {
  EXPECT_NE(page.about->string("family"), "other");
  page.open("abcabd");
  ASSERT_TRUE(page.trace->has("attentions"));
  // FNet mixes by Fourier transforms: there is no attention to show.
  EXPECT_EQ(page.trace->at("attentions").size() == 0, page.model_.model->model_type() == "fnet");
  check_answers(page);
  check_attentions(page);
  const int64_t context = page.model_.model->context_length();
  if (page.about->at("inputs").boolean("text") && (context == 0 || context >= 16)) {
    page.open("abcabdefghabcabd");  // more tokens than blocks and landmarks of sparse models
    ASSERT_TRUE(page.trace->has("attentions"));
    check_attentions(page);
  }
}

/// A small configuration of an architecture; empty where it is made of other models (rag).
inline std::string small_config(const std::string& type) {
  const ModelSpec* spec = find_model_spec(type);
  if (type == "heed-reader") {
    return R"({"model_type":"heed-reader","readout":"attention","vocab_size":16,"d_model":16,
      "max_position_embeddings":32,"encoder_layers":2,"encoder_attention_heads":2,
      "encoder_ffn_dim":24,"activation_function":"gelu","dropout":0.0,"pad_token_id":0})";
  }
  if (!spec->fresh_config) {
    return spec->reads_documents
               ? ""
               : R"({"model_type":")" + type + R"(","vocab_size":16,"hidden_size":16,
      "num_hidden_layers":2,"num_layers":2,"num_attention_heads":2,"intermediate_size":24,
      "max_position_embeddings":32})";
  }
  FreshSizes sizes;
  sizes.vocab_size = 16;
  sizes.hidden_size = 16;
  sizes.num_layers = 2;
  sizes.num_heads = 2;
  sizes.intermediate_size = 24;
  sizes.context_length = 32;
  sizes.dropout = 0.0;
  sizes.image_size = 8;
  sizes.task = spec->train_tasks.empty() ? "" : spec->train_tasks.front();
  return spec->fresh_config(sizes).set("decoder_start_token_id", 1).set("eos_token_id", 2).dump();
}

}  // namespace heed::test
