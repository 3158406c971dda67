#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/base64.h"
#include "base/check.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/serve.h"
#include "io/json.h"
#include "support/data.h"

namespace heed {
namespace {

/// A golden model with a tokenizer of few characters, whose ids every vocabulary has.
ExplorerModel golden_model(const std::string& name) {
  ExplorerModel model;
  model.id = name;
  model.path = test::golden("models/" + name);
  model.model = load_model(model.path);
  const std::vector<std::string_view> texts{"abcdefgh"};
  TokenizerTraining training;
  training.kind = TokenizerKind::character;
  training.special_tokens = {"<unk>"};
  model.tokenizer = train_tokenizer(std::span<const std::string_view>(texts), training);
  return model;
}

std::vector<double> values_of(const Json& tensor) {
  const std::string bytes = decode_base64(tensor.string("data"), "tensor");
  std::vector<double> values;
  if (tensor.string("dtype") == "f64") {
    values.resize(bytes.size() / 8);
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    std::vector<float> floats(bytes.size() / 4);
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    values.assign(floats.begin(), floats.end());
  }
  return values;
}

/// A session of the page with one model.
class Session {
 public:
  explicit Session(const std::string& name)
      : model_(golden_model(name)), explorer_({name}, [this](const std::string& id) {
          check(id == model_.id, id, "there is no such model");
          return model_;
        }) {}

  Json ask(const std::string& method, const std::string& path, const std::string& body,
           int status = 200) {
    const Explorer::Answer answer = explorer_.answer(method, "/heed/v1/" + path, body);
    EXPECT_EQ(answer.status, status) << path << " " << body << "\n" << answer.json;
    return Json::parse(answer.json, "answer");
  }
  Json post(const std::string& path, const std::string& body, int status = 200) {
    return ask("POST", path, body, status);
  }
  /// Makes a trace and gives the path of its routes.
  std::string trace(const std::string& fields = R"("text":"abcabd")") {
    last = post("traces", R"({"model":")" + model_.id + R"(",)" + fields + "}");
    return "traces/" + last->string("id");
  }
  std::optional<Json> last;
  ExplorerModel model_;
  Explorer explorer_;
};

class Why : public testing::TestWithParam<std::string> {};

/// Σ values + bias + remainder is the score, and the remainder is rounding.
void check_why(Session& session, const std::string& trace, const Json& attention) {
  const std::string kind = attention.string("kind");
  const int64_t layers = attention.integer("layers", 1, 100);
  const int64_t heads = attention.integer("heads", 1, 100);
  const int64_t queries = attention.integer("queries", 1, 1000);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t head = layer % heads, query = queries - 1 - layer % 2, key = layer % 2;
    const Json why = session.post(
        trace + "/why", fmt::format(R"({{"kind":"{}","layer":{},"head":{},"query":{},"key":{}}})",
                                    kind, layer, head, query, key));
    double sum = 0, size = 0;
    for (const double value : values_of(why.at("values"))) {
      sum += value;
      size += std::abs(value);
    }
    const double score = why.at("score").number(), remainder = why.at("remainder").number();
    EXPECT_NEAR(sum + why.at("bias").number() + remainder, score, 1e-9 + 1e-6 * size);
    EXPECT_LE(std::abs(remainder), 1e-5 * (size + std::abs(score) + 1e-3)) << kind << " " << layer;
    // The same score as the tile that the page draws.
    const Json tile = session.post(
        trace + "/tile",
        fmt::format(
            R"({{"kind":"{}","layer":{},"head":{},"what":"scores","level":0,"row":0,"column":0}})",
            kind, layer, head));
    const std::vector<double> scores = values_of(tile.at("values"));
    const int64_t keys = attention.integer("keys", 1, 1000);
    const double drawn = scores[static_cast<size_t>(query * keys + key)];
    const auto head_data = session.post(
        trace + "/head",
        fmt::format(R"({{"kind":"{}","layer":{},"head":{},"queries":[0,{}],"keys":[0,{}]}})", kind,
                    layer, head, queries, keys));
    if (head_data.at("softcap").number() == 0.0 && !std::isinf(drawn)) {  // -inf: masked
      EXPECT_NEAR(drawn, score, 1e-5 * (std::abs(score) + size + 1e-3));
    }
  }
}

TEST_P(Why, PartsAddUpToTheScore) {
  Session session(GetParam());
  const bool two = session.model_.model->kind() == ModelKind::encoder_decoder;
  const std::string trace =
      session.trace(two ? R"("text":"abcabd","target":"abc")" : R"("text":"abcabd")");
  for (const Json& attention : session.last->at("attentions").elements()) {
    check_why(session, trace, attention);
  }
}

/// The same numbers from the C++ function that `heed inspect --why` calls.
TEST_P(Why, AFunctionGivesWhatThePageIsTold) {
  Session session(GetParam());
  const std::string trace = session.trace();
  const Json attention = session.last->at("attentions").elements()[0];
  const std::string kind = attention.string("kind");
  const int64_t layer = attention.integer("layers", 1, 100) - 1;
  const Json told = session.post(
      trace + "/why",
      fmt::format(R"({{"kind":"{}","layer":{},"head":0,"query":3,"key":1}})", kind, layer));
  const ScoreExplanation why = explain_score(session.model_, "abcabd", kind, layer, 0, 3, 1);
  EXPECT_EQ(why.score, told.at("score").number());
  EXPECT_EQ(why.weight, told.at("weight").number());
  EXPECT_EQ(why.bias, told.at("bias").number());
  EXPECT_EQ(why.remainder, told.at("remainder").number());
  EXPECT_GT(why.query_parts.size(), 1u);
  EXPECT_EQ(why.values.size(), why.query_parts.size() * why.key_parts.size());
  const double sum =
      std::accumulate(why.values.begin(), why.values.end(), why.bias + why.remainder);
  EXPECT_NEAR(sum, why.score, 1e-6 * (1 + std::abs(why.score)));
}

INSTANTIATE_TEST_SUITE_P(Families, Why,
                         testing::Values("gpt2_lm", "llama_gqa", "llama_yarn", "mistral_window",
                                         "qwen2", "qwen3", "gemma", "gemma2", "phi", "phi3",
                                         "gpt_neox", "gptj", "bloom", "falcon_alibi", "opt",
                                         "starcoder2", "olmo2", "granite", "bert_mlm",
                                         "distilbert_mlm", "t5_gated", "marian"));

TEST(Explorer, WeightsOfATileAreSoftmaxOfTheHeadsNumbers) {
  Session session("gpt2_lm");
  const std::string trace = session.trace();
  const Json tile = session.post(
      trace + "/tile",
      R"({"kind":"self","layer":1,"head":0,"what":"weights","level":0,"row":0,"column":0})");
  const std::vector<double> weights = values_of(tile.at("values"));
  const Json head = session.post(
      trace + "/head", R"({"kind":"self","layer":1,"head":0,"queries":[0,6],"keys":[0,6]})");
  const std::vector<double> q = values_of(head.at("q")), k = values_of(head.at("k"));
  const size_t width = q.size() / 6;
  const double scale = head.at("scale").number();
  for (size_t i = 0; i < 6; ++i) {
    double total = 0;
    std::vector<double> exponentials(6, 0.0);
    for (size_t j = 0; j <= i; ++j) {
      double score = 0;
      for (size_t d = 0; d < width; ++d) {
        score += q[i * width + d] * k[j * width + d];
      }
      total += exponentials[j] = std::exp(score * scale);
    }
    for (size_t j = 0; j < 6; ++j) {
      EXPECT_NEAR(weights[i * 6 + j], exponentials[j] / total, 1e-6);
    }
  }
}

TEST(Explorer, AttributionAndLensEndAtTheLogits) {
  for (const char* name : {"gpt2_lm", "llama_gqa"}) {
    Session session(name);
    const std::string trace = session.trace();
    const Json predicted =
        session.post(trace + "/predict", R"({"position":5,"top_k":3,"all_logits":true})");
    const Json best = predicted.at("candidates")[0];
    const int64_t token = best.integer("id", 0, 1 << 20);
    const Json split =
        session.post(trace + "/attribution", fmt::format(R"({{"position":5,"token":{}}})", token));
    double sum = split.at("remainder").number();
    for (const Json& each : split.at("parts").elements()) {
      sum += each.at("value").number();
    }
    EXPECT_NEAR(sum, best.at("logit").number(), 1e-5);
    EXPECT_LE(std::abs(split.at("remainder").number()), 1e-4);
    const Json lens =
        session.post(trace + "/lens", fmt::format(R"({{"position":5,"token":{}}})", token));
    const Json last = lens.at("rows")[lens.at("rows").size() - 1];
    EXPECT_NEAR(last.at("probability").number(), best.at("probability").number(), 1e-5);
    EXPECT_EQ(last.integer("rank", 0, 1 << 20), 0);
  }
}

TEST(Explorer, StepsAddUp) {
  Session session("gpt2_lm");
  const std::string trace = session.trace();
  const Json steps =
      session.post(trace + "/steps", R"({"kind":"self","layer":1,"head":1,"query":4})");
  const std::vector<double> before = values_of(steps.at("resid_pre")),
                            attention = values_of(steps.at("attn_out")),
                            middle = values_of(steps.at("resid_mid"));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(before[i] + attention[i], middle[i], 1e-5);
  }
  EXPECT_EQ(values_of(steps.at("source_norms")).size(), 6u);
  EXPECT_GT(steps.at("neurons").size(), 0u);
}

TEST(Explorer, AblationChangesThePredictionAndScalingByOneDoesNot) {
  Session session("gpt2_lm");
  const std::string trace = session.trace();
  const auto with = [&](const std::string& change) {
    return session.post(trace + "/experiment", R"({"interventions":[)" + change + "]}");
  };
  EXPECT_NEAR(
      with(R"({"type":"head","kind":"self","layer":0,"head":0,"scale":1})").at("kl").number(), 0.0,
      1e-9);
  EXPECT_GT(with(R"({"type":"head","kind":"self","layer":0,"head":0,"scale":0})").at("kl").number(),
            0.0);
  EXPECT_GT(
      with(R"({"type":"edge","kind":"self","layer":0,"head":-1,"query":5,"key":1,"mode":"cut"})")
          .at("kl")
          .number(),
      0.0);
  EXPECT_GT(with(R"({"type":"causal","enabled":false})").at("kl").number(), 0.0);
  EXPECT_GT(
      with(R"({"type":"position","hook":"blocks.0.hook_resid_post","position":2,"mode":"zero"})")
          .at("kl")
          .number(),
      0.0);
}

TEST(Explorer, AnEdgeTakesItsWeightFromAnotherText) {
  Session session("gpt2_lm");
  session.trace(R"("text":"abcaed")");
  const std::string other = session.last->string("id");
  const std::string trace = session.trace();
  const auto with = [&](const std::string& rest, int status = 200) {
    return session.post(
        trace + "/experiment",
        R"({"interventions":[{"type":"edge","kind":"self","layer":0,"head":1,)" + rest + "}]}",
        status);
  };
  const auto patched_from = [&](const std::string& from) {
    return with(R"("query":5,"key":1,"mode":"patch","from":")" + from + R"(")").at("kl").number();
  };
  EXPECT_NEAR(patched_from(session.last->string("id")), 0.0, 1e-9);  // its own weight
  // The other's weight is the own one, scaled by their quotient.
  const auto weight = [&](const std::string& id) {
    const Json tile = session.post(
        "traces/" + id + "/tile",
        R"({"kind":"self","layer":0,"head":1,"what":"weights","level":0,"row":0,"column":0})");
    return values_of(tile.at("values"))[5 * 6 + 1];
  };
  const double quotient = weight(other) / weight(session.last->string("id"));
  const double scaled =
      with(fmt::format(R"("query":5,"key":1,"mode":"scale","scale":{})", quotient))
          .at("kl")
          .number();
  EXPECT_GT(scaled, 0.0);
  EXPECT_NEAR(patched_from(other), scaled, 1e-5 * scaled);
  for (const char* mode : {"cut", "scale"}) {
    with(fmt::format(R"("query":6,"key":1,"mode":"{}")", mode), 400);
    with(fmt::format(R"("query":5,"key":600,"mode":"{}")", mode), 400);
  }
  with(R"("query":6,"key":1,"mode":"patch","from":")" + other + R"(")", 400);
  with(R"("query":5,"key":1,"mode":"turn")", 400);
}

TEST(Explorer, PatchingCleanIntoCorruptRestoresTheAnswer) {
  Session session("gpt2_lm");
  const std::string clean = session.trace(R"("text":"abcabd")");
  const Json best = session.last->at("prediction").at("candidates")[0];
  session.trace(R"("text":"abcaed")");
  const std::string corrupt = session.last->string("id");
  const Json patched = session.post(
      clean + "/patching",
      fmt::format(R"({{"corrupt":"{}","what":"resid_pre","kind":"self","layer":0,"answer":{}}})",
                  corrupt, best.integer("id", 0, 1 << 20)));
  // The texts differ at position 4 only: patching the first layer's input there restores it.
  EXPECT_NEAR(values_of(patched.at("values"))[4], 1.0, 1e-3);
  EXPECT_NEAR(values_of(patched.at("values"))[0], 0.0, 1e-3);
}

TEST(Explorer, RefusesWhatIsNotThere) {
  Session session("gpt2_lm");
  const std::string trace = session.trace();
  session.post("traces", R"({"model":"none","text":"a"})", 404);
  session.post("traces", R"({"model":"gpt2_lm"})", 400);
  session.post("traces", R"({"model":"gpt2_lm","text":"a","more":1})", 400);
  session.post(
      trace + "/tile",
      R"({"kind":"self","layer":9,"head":0,"what":"weights","level":0,"row":0,"column":0})", 404);
  session.post(
      trace + "/tile",
      R"({"kind":"self","layer":0,"head":0,"what":"weights","level":0,"row":7,"column":0})", 400);
  session.post(trace + "/nothing", "{}", 404);
  session.post(trace + "/why", "not json", 400);
  session.ask("GET", "traces/t99", "", 404);
  session.ask("DELETE", trace, "", 200);
  EXPECT_EQ(session.ask("GET", trace, "", 404).at("error").string("code"), "trace_gone");
}

TEST(Explorer, DescribesItsModels) {
  Session session("gpt2_lm");
  const Json models = session.ask("GET", "models", "");
  const Json model = models.at("models")[0];
  EXPECT_EQ(model.string("family"), "decoder");
  EXPECT_EQ(model.string("answers"), "next-token");
  EXPECT_EQ(model.string("norm"), "pre");
  EXPECT_TRUE(model.at("can").boolean("why"));
}

TEST(Explorer, DescribesNormsAndPositionsAsTheyAre) {
  const std::vector<std::array<std::string, 4>> cases{
      {"gpt2_lm", "pre", "layernorm", "learned"},   {"llama_gqa", "pre", "rmsnorm", "rotary"},
      {"bert_mlm", "post", "layernorm", "learned"}, {"bloom", "pre", "layernorm", "alibi"},
      {"t5_gated", "pre", "rmsnorm", "relative"},   {"marian", "post", "layernorm", "sinusoidal"}};
  for (const auto& [name, norm, type, position] : cases) {
    Session session(name);
    const Json model = session.ask("GET", "models", "").at("models")[0];
    EXPECT_EQ(model.string("norm"), norm) << name;
    EXPECT_EQ(model.string("norm_type"), type) << name;
    EXPECT_EQ(model.string("position"), position) << name;
  }
}

TEST(Explorer, PatchesOfAnImageAreNamedByTheirPlace) {
  for (const char* name : {"vit_classify", "deit_teacher"}) {
    Session session(name);
    session.trace(R"("text":"")");
    const Json patch = session.ask("GET", "models", "").at("models")[0].at("patch");
    const Json tokens = session.last->at("sides").at("source");
    const int64_t rows = patch.integer("rows", 1, 1000),
                  columns = patch.integer("columns", 1, 1000);
    const int64_t first = patch.integer("first", 0, 10);
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), first + rows * columns) << name;
    EXPECT_EQ(tokens[static_cast<size_t>(first)].string("label"), "0,0") << name;
    EXPECT_EQ(tokens[tokens.size() - 1].string("label"),
              fmt::format("{},{}", rows - 1, columns - 1))
        << name;
    const Json best = session.last->at("prediction").at("candidates")[0];
    EXPECT_GT(best.at("probability").number(), 0.0);
  }
}

TEST(Explorer, GeneratesWithTheAttentionOfEveryToken) {
  Session session("gpt2_lm");
  std::vector<std::string> events;
  const Explorer::Answer answer =
      session.explorer_.generate(R"({"model":"gpt2_lm","text":"abc","max_tokens":3})",
                                 [&](std::string_view event, const std::string& json) {
                                   events.emplace_back(event);
                                   const Json data = Json::parse(json, "event");
                                   if (event == "token") {
                                     EXPECT_EQ(data.at("attention").integer("keys", 0, 100),
                                               2 + static_cast<int64_t>(events.size()));
                                   }
                                   return true;
                                 });
  EXPECT_EQ(answer.status, 200) << answer.json;
  EXPECT_EQ(events.back(), "done");
}

TEST(Explorer, AFileHoldsWhatThePageAsksFor) {
  const ExplorerModel model = golden_model("gpt2_lm");
  const std::string page = explorer_file(model, {.text = "abcabd", .language = "ko"});
  constexpr std::string_view kBegin = R"(<script type="application/json" id="heed-data">)";
  const size_t begin = page.find(kBegin);
  ASSERT_NE(begin, std::string::npos);
  const size_t end = page.find("</script>", begin);
  const Json data = Json::parse(
      std::string_view(page).substr(begin + kBegin.size(), end - begin - kBegin.size()), "page");
  EXPECT_EQ(data.string("language"), "ko");
  EXPECT_EQ(data.at("start").at("trace").string("id"), "t");
  const Json responses = data.at("responses");
  for (
      const char* key :
      {"GET /heed/v1/models", R"(POST /heed/v1/traces/t/heads {"kind":"self","layer":1})",
       R"(POST /heed/v1/traces/t/tile {"column":0,"head":0,"kind":"self","layer":0,"level":0,"row":0,"what":"weights"})",
       R"(POST /heed/v1/traces/t/why {"head":0,"key":1,"kind":"self","layer":0,"query":3})",
       R"(POST /heed/v1/traces/t/steps {"head":0,"kind":"self","layer":0,"query":5})",
       R"(POST /heed/v1/traces/t/lens {"position":5})"}) {
    EXPECT_TRUE(responses.has(key)) << key;
  }
}

}  // namespace
}  // namespace heed
