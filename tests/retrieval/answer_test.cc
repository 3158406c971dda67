#include <gtest/gtest.h>

#include "heed/io.h"
#include "heed/ops.h"
#include "heed/retrieval.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "retrieval/support.h"
#include "support/check.h"

namespace heed {
namespace {

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
