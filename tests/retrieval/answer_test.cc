#include <gtest/gtest.h>

#include "heed/autograd.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/retrieval.h"
#include "retrieval/support.h"
#include "support/check.h"

namespace heed {
namespace {

std::filesystem::path fid_folder() { return test::golden("retrieval/fid"); }

ModelInput golden_input() {
  const TensorMap tensors = load_safetensors(fid_folder() / "inputs.safetensors");
  ModelInput input;
  input.input_ids = tensors.at("input_ids");
  input.attention_mask = tensors.at("attention_mask");
  input.labels = tensors.at("labels");
  input.passages = 3;
  return input;
}

/// Rows [begin, end) of a batch.
ModelInput one_question(const ModelInput& input, int64_t question) {
  ModelInput one = input;
  const int64_t begin = question * input.passages;
  one.input_ids = slice(input.input_ids, 0, begin, begin + input.passages).contiguous();
  one.attention_mask = slice(input.attention_mask, 0, begin, begin + input.passages).contiguous();
  one.labels = {};
  one.skip_padding = true;
  return one;
}

TEST(Fid, LossAndLogitsAreTheReferences) {
  const std::unique_ptr<Model> model = load_model(fid_folder());
  const TensorMap expected = load_safetensors(fid_folder() / "outputs.safetensors");
  for (const bool skip : {false, true}) {
    ModelInput input = golden_input();
    input.skip_padding = skip;
    const ModelOutput output = model->forward(input);
    test::expect_norm_close(output.loss, expected.at("loss"), test::kModel, "loss");
    test::expect_norm_close(output.logits, expected.at("logits"), test::kModel, "logits");
  }
}

TEST(Fid, GradientsAreTheReferences) {
  const std::unique_ptr<Model> model = load_model(fid_folder(), {.trainable = true});
  const TensorMap expected = load_safetensors(fid_folder() / "grads.safetensors");
  ModelInput input = golden_input();
  input.skip_padding = true;
  backward(model->forward(input).loss);
  for (const Parameter& parameter : model->parameters()) {
    if (expected.contains(parameter.name)) {
      test::expect_norm_close(parameter.tensor.grad(), expected.at(parameter.name), test::kModel,
                              parameter.name);
    }
  }
}

TEST(Fid, PassageScoresAndGeneratedIdsAreTheReferences) {
  const std::unique_ptr<Model> model = load_model(fid_folder());
  const TensorMap expected = load_safetensors(fid_folder() / "outputs.safetensors");
  const std::vector<float> scores = expected.at("passage_scores").to_vector<float>();
  const Tensor ids = expected.at("generated");  // begins with the start token, ends with padding
  for (int64_t question = 0; question < 2; ++question) {
    const ModelInput input = one_question(golden_input(), question);
    const std::vector<double> found = fid_passage_scores(*model, input);
    ASSERT_EQ(found.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(found[i], scores[static_cast<size_t>(question) * 3 + i], 1e-6);
    }
    std::vector<int64_t> generated;
    Request request;
    request.encoder = input;
    request.max_tokens = 8;
    apply_generation_tokens(*model, request);
    request.on_token = [&](const SampledToken& token) {
      generated.push_back(token.id);
      return true;
    };
    Scheduler scheduler(*model, 1);
    scheduler.add(std::move(request));
    scheduler.run();
    for (size_t i = 0; i < generated.size(); ++i) {
      EXPECT_EQ(generated[i],
                ids.data<int64_t>()[question * ids.size(1) + 1 + static_cast<int64_t>(i)]);
    }
    EXPECT_GE(generated.size(), 1u);
  }
}

TEST(Fid, APassageIsEncodedByItself) {
  const std::unique_ptr<Model> model = load_model(fid_folder());
  const ModelInput input = one_question(golden_input(), 1);
  const EncoderOutput all = model->encode(input);
  int64_t row = 0;
  for (int64_t i = 0; i < 3; ++i) {
    ModelInput alone = input;
    alone.passages = 1;
    alone.input_ids = slice(input.input_ids, 0, i, i + 1).contiguous();
    alone.attention_mask = slice(input.attention_mask, 0, i, i + 1).contiguous();
    const Tensor rows = model->encode(alone).rows;
    test::expect_same_bits(slice(all.rows, 0, row, row + rows.size(0)).contiguous(), rows);
    row += rows.size(0);
  }
  EXPECT_EQ(row, all.rows.size(0));
  EXPECT_EQ(all.layout.batch, 1);
  ModelInput odd = input;
  odd.passages = 2;
  EXPECT_THROW(model->encode(odd), Error);
}

TEST(Dpr, EncodersAreTheReferences) {
  for (const char* name : {"retrieval/dpr_question", "retrieval/dpr_context"}) {
    const std::unique_ptr<Model> model = load_model(test::golden(name));
    const TensorMap inputs = load_safetensors(test::golden(name) / "inputs.safetensors");
    const TensorMap expected = load_safetensors(test::golden(name) / "outputs.safetensors");
    ModelInput input;
    input.input_ids = inputs.at("input_ids");
    input.attention_mask = inputs.at("attention_mask");
    test::expect_norm_close(model->forward(input).pooler_output, expected.at("pooler_output"),
                            test::kModel, name);
    input.skip_padding = true;
    test::expect_norm_close(model->forward(input).pooler_output, expected.at("pooler_output"),
                            test::kModel, name);
  }
}

/// A small decoder and an index of four short texts.
class Answering : public testing::Test {
 protected:
  Answering() : out_(folder_ / "x.heed-index") {
    const std::filesystem::path encoder = test::make_encoder(folder_ / "encoder");
    tokenizer_ = Tokenizer::load(encoder);
    test::write(folder_ / "docs" / "a.jsonl",
                "{\"title\":\"one\",\"text\":\"the city is long\"}\n{\"text\":\"cats live here\"}\n"
                "{\"text\":\"dogs and people\"}\n{\"text\":\"도시의 역사는 길다\"}\n");
    IndexOptions options;
    options.model = encoder;
    build_index({(folder_ / "docs").native()}, out_, options);
    const std::string config =
        R"({"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"n_positions":400,"vocab_size":)" +
        std::to_string(tokenizer_.vocab_size()) + "}";
    model_ = create_model(config, 3);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path out_;
  Tokenizer tokenizer_;
  std::unique_ptr<Model> model_;
};

TEST_F(Answering, SourcesAreNumberedAndTheirAttentionAddsUp) {
  SearchIndex index = SearchIndex::open(out_);
  AskOptions options;
  options.search.top_k = 3;
  options.max_tokens = 6;
  options.attention = true;
  std::string streamed;
  options.on_text = [&](std::string_view text) { streamed += text; };
  const Answer answer = ask(index, *model_, tokenizer_, "where do cats live?", options);
  EXPECT_EQ(answer.text, streamed);
  EXPECT_EQ(answer.answer_tokens, 6);
  ASSERT_EQ(answer.sources.size(), 3u);
  double sum = answer.other_attention;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answer.sources[i].number, static_cast<int64_t>(i) + 1);
    EXPECT_GT(answer.sources[i].tokens.end, answer.sources[i].tokens.begin);
    EXPECT_GT(answer.sources[i].attention, 0.0);
    sum += answer.sources[i].attention;
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
  EXPECT_GT(answer.other_attention, 0.0);
  // A model with fresh weights attends about evenly: to each source by its tokens.
  for (const AnswerSource& source : answer.sources) {
    const double tokens = static_cast<double>(source.tokens.end - source.tokens.begin);
    EXPECT_NEAR(source.attention, tokens / static_cast<double>(answer.prompt_tokens + 3), 0.03);
  }
}

TEST_F(Answering, WhatDoesNotFitIsLeftOutOrCut) {
  SearchIndex index = SearchIndex::open(out_);
  AskOptions options;
  options.search.top_k = 4;
  options.max_tokens = 10;
  const Answer whole = ask(index, *model_, tokenizer_, "cats?", options);
  EXPECT_EQ(whole.sources.size(), 4u);
  options.max_tokens = 400 - whole.prompt_tokens + 1;
  const Answer less = ask(index, *model_, tokenizer_, "cats?", options);
  EXPECT_EQ(less.sources.size(), 3u);
  EXPECT_LE(less.prompt_tokens + options.max_tokens, 400);
  options.max_tokens = 395;
  try {
    ask(index, *model_, tokenizer_, "cats?", options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("context"), std::string::npos) << error.what();
  }
}

TEST(RagMessage, FollowsTheQuestionsLanguage) {
  SearchResult source;
  source.title = "T";
  source.text = "body";
  EXPECT_NE(rag_message({source}, "what?").find("\n[1] T\nbody\n\nQuestion: what?"),
            std::string::npos);
  EXPECT_NE(rag_message({source}, "무엇입니까?").find("\n질문: 무엇입니까?"), std::string::npos);
}

}  // namespace
}  // namespace heed
