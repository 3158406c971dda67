#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "heed/runtime.h"
#include "pipelines/support.h"
#include "support/check.h"

namespace heed::test {
namespace {

TEST(TextGeneration, StreamsWhatItReturns) {
  TemporaryFolder folder;
  const auto generate = pipeline<TextGeneration>(make_decoder(folder.path()));
  std::string streamed;
  const GeneratedText result = generate("the cat", {.max_new_tokens = 12},
                                        [&](std::string_view piece) { streamed += piece; });
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(result.ids.size(), result.log_probabilities.size());
  EXPECT_LE(result.ids.size(), 12u);
  EXPECT_FALSE(result.ids.empty());
}

TEST(TextGeneration, AStreamComputesNoFurtherThanItIsRead) {
  TemporaryFolder folder;
  const TextGeneration generate(make_decoder(folder.path()));
  const GeneratedText whole = generate("the cat", {.max_new_tokens = 12});
  TextGenerationStream stream(generate, "the cat", {.max_new_tokens = 12});
  std::string text;
  while (const std::optional<std::string> piece = stream.next()) {
    EXPECT_FALSE(piece->empty());
    text += *piece;
    EXPECT_LE(stream.result().text.size(), text.size());
  }
  EXPECT_EQ(text, whole.text);
  EXPECT_EQ(stream.result().ids, whole.ids);
  EXPECT_EQ(stream.result().finish, whole.finish);
  EXPECT_FALSE(stream.next());

  TextGenerationStream other(generate, "the cat",
                             Json::parse(R"({"max_new_tokens": 12})", "options"));
  ASSERT_TRUE(other.next());
  EXPECT_LT(other.result().ids.size(), whole.ids.size());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(other.next(stop.get_token()), Stopped);
  try {
    TextGenerationStream(generate, "the cat", {.num_return_sequences = 2});
    FAIL() << "two samples in one stream";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "text-generation: 2 samples cannot be streamed; ask for one");
  }
}

TEST(TextGeneration, ManyPromptsAndSamplesGiveWhatEachGivesAlone) {
  TemporaryFolder folder;
  const TextGeneration generate(make_decoder(folder.path()));
  const GenerationOptions options{.max_new_tokens = 8,
                                  .sampling = {.temperature = 1.0, .seed = 4},
                                  .num_return_sequences = 2,
                                  .run = {.batch_size = 3}};
  const auto all = generate(sample_texts(), options);
  ASSERT_EQ(all.size(), 2 * sample_texts().size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].input, i / 2);
    EXPECT_EQ(all[i].sample, static_cast<int64_t>(i % 2));
  }
  for (size_t i = 0; i < sample_texts().size(); ++i) {
    GenerationOptions alone = options;
    alone.num_return_sequences = 1;
    EXPECT_EQ(generate(sample_texts()[i], alone).ids, all[2 * i].ids);
  }
}

TEST(TextGeneration, SamplesThatRunTogetherAreThoseThatRunAlone) {
  TemporaryFolder folder;
  const TextGeneration generate(make_decoder(folder.path()));
  const std::string text = "the cat and the dog or birds";
  ASSERT_GE(generate.tokens_of(text).size(), 9u) << "long enough to be shared";
  GenerationOptions options{.max_new_tokens = 8,
                            .sampling = {.temperature = 1.0, .seed = 4},
                            .num_return_sequences = 5,
                            .run = {.batch_size = 1}};
  const auto alone = generate(std::vector{text}, options);
  options.run.batch_size = 4;  // they share what they have read of the prompt
  const auto together = generate(std::vector{text}, options);
  ASSERT_EQ(alone.size(), 5u);
  ASSERT_EQ(together.size(), 5u);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(together[i].sample, static_cast<int64_t>(i));
    EXPECT_EQ(together[i].ids, alone[i].ids);
    EXPECT_EQ(together[i].log_probabilities, alone[i].log_probabilities);
  }
  EXPECT_NE(alone[0].ids, alone[1].ids) << "samples differ";
}

TEST(TextGeneration, LongPromptsAreNamedOrCut) {
  TemporaryFolder folder;
  const TextGeneration generate(make_decoder(folder.path()));
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "the cat ";
  }
  const std::vector<std::string> prompts{"the dog", text, "birds"};
  std::vector<size_t> failed;
  const auto results = generate(
      prompts, {.max_new_tokens = 4, .run = {.on_error = [&](size_t i, const std::string& why) {
                                       failed.push_back(i);
                                       EXPECT_NE(why.find("context is 32"), std::string::npos);
                                     }}});
  EXPECT_EQ(failed, std::vector<size_t>{1});
  EXPECT_TRUE(results[1].ids.empty());
  EXPECT_EQ(results[2].ids.size(), 4u);
  EXPECT_EQ(generate(text, {.max_new_tokens = 4, .truncate = true}).ids.size(), 4u);
  EXPECT_NE(message_of([&] { generate(text); }).find("context is 32"), std::string::npos);
}

TEST(TextGeneration, StopsByTokenAndByString) {
  TemporaryFolder folder;
  const TextGeneration generate(make_decoder(folder.path()));
  std::stop_source stop;
  int pieces = 0;
  const GeneratedText cut = generate(
      "the cat", {.max_new_tokens = 25, .run = {.stop = stop.get_token()}}, [&](std::string_view) {
        if (++pieces == 2) {
          stop.request_stop();
        }
      });
  EXPECT_LT(cut.ids.size(), 25u);
  EXPECT_EQ(cut.finish, FinishReason::stopped);
  const GeneratedText whole = generate("the cat", {.max_new_tokens = 10});
  ASSERT_GT(whole.text.size(), 3u);
  const std::string stop_text = whole.text.substr(1, 2);
  const GeneratedText stopped =
      generate("the cat", {.max_new_tokens = 10, .stop_strings = {stop_text}});
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop_text)));
}

TEST(Translation, KeepsOrderAndAnswersBlankLinesWithBlankLines) {
  TemporaryFolder folder;
  const Translation translate(make_encoder_decoder(folder.path()));
  TranslationOptions options{.beam = {.beams = 2, .n_best = 2, .max_tokens = 6},
                             .return_alignment = true,
                             .run = {.batch_size = 2}};
  const auto all = translate(sample_texts(), options);
  for (size_t i = 0; i < sample_texts().size(); ++i) {
    const auto alone = translate(sample_texts()[i], options);
    ASSERT_EQ(alone.size(), 2u);
    EXPECT_EQ(alone[0].ids, all[i][0].ids);
    EXPECT_EQ(alone[0].score, all[i][0].score);
    EXPECT_GE(alone[0].score, alone[1].score);
    ASSERT_EQ(alone[0].alignment.size(), alone[0].ids.size());
  }
}

/// Calls from many threads at once on one pipeline give what they give one after the other.
TEST(Threads, OnePipelineServesManyThreads) {
  TemporaryFolder folder;
  const TextGeneration generate(make_decoder(folder.path() / "decoder"));
  const FeatureExtraction embed(make_encoder(folder.path() / "encoder", "BertModel"));
  const Translation translate(make_encoder_decoder(folder.path() / "both"));
  std::vector<std::vector<TokenId>> ids, translated;
  std::vector<Tensor> vectors;
  for (const std::string& text : sample_texts()) {
    ids.push_back(generate(text, {.max_new_tokens = 10}).ids);
    vectors.push_back(embed(text));
    translated.push_back(translate(text, {.beam = {.beams = 2, .max_tokens = 5}})[0].ids);
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (size_t round = 0; round < 4; ++round) {
        const size_t i = (t + round) % sample_texts().size();
        const std::string& text = sample_texts()[i];
        wrong += generate(text, {.max_new_tokens = 10}).ids != ids[i] ? 1 : 0;
        wrong += embed(text).to_doubles() != vectors[i].to_doubles() ? 1 : 0;
        wrong += translate(text, {.beam = {.beams = 2, .max_tokens = 5}})[0].ids != translated[i]
                     ? 1
                     : 0;
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace heed::test
