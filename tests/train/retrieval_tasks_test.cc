// heed train --task embed and --task fid.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "heed/data.h"
#include "heed/models.h"
#include "heed/retrieval.h"
#include "heed/runtime.h"
#include "heed/train.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

TrainOptions small_options(const std::string& task, const std::filesystem::path& data,
                           const std::filesystem::path& out) {
  TrainOptions options;
  options.task = task;
  options.data = data;
  options.out = out;
  options.layers = 1;
  options.heads = 2;
  options.width = 32;
  options.context = 32;
  options.batch = 16;
  options.dropout = 0.0;
  options.warmup = 5;
  options.lr = 3e-3;
  options.quiet = true;
  options.probes = 1;
  return options;
}

/// Queries that share a rare word with their text; the others share common words.
void write_pairs(const std::filesystem::path& path, int count) {
  std::ofstream file(path);
  for (int i = 0; i < count; ++i) {
    const std::string word =
        std::string(1, static_cast<char>('a' + i % 26)) + static_cast<char>('a' + i / 26 % 26);
    file << R"({"query":"who is )" << word << R"(","positive":"here lives )" << word
         << R"( now","negatives":["here lives nobody now"]})"
         << "\n";
  }
}

std::map<std::string, double> metrics_of(const TrainResult& result) {
  return {result.metrics.begin(), result.metrics.end()};
}

TEST(EmbedTask, LearnsToFindTheTextOfAQuery) {
  const TemporaryFolder folder;
  write_pairs(folder / "pairs.jsonl", 200);
  TrainOptions options = small_options("embed", folder / "pairs.jsonl", folder / "run");
  options.tokenizer = "wordpiece:200";
  options.matryoshka = "16,8";
  options.validation = folder / "pairs.jsonl";
  options.steps = 80;
  options.eval_every = 80;
  const std::map<std::string, double> metrics = metrics_of(train(options));
  EXPECT_GT(metrics.at("val_ndcg_10"), 0.8);
  EXPECT_GE(metrics.at("val_recall_10"), metrics.at("val_recall_1"));
  EXPECT_GT(metrics.at("val_ndcg_10_of_8"), 0.3);
  EXPECT_LE(metrics.at("val_ndcg_10_of_8"), metrics.at("val_ndcg_10") + 0.05);
  // What was trained is an encoder that an index takes.
  std::ofstream(folder / "doc.txt") << "here lives ab now";
  IndexOptions index;
  index.model = (folder / "run").native();
  EXPECT_EQ(build_index({(folder / "doc.txt").native()}, folder / "x.heed-index", index).chunks, 1);
  TrainOptions bad = options;
  bad.out = folder / "bad";
  bad.matryoshka = "64";
  EXPECT_EQ(message_of([&] { train(bad); }),
            "matryoshka: '64' is not a list of sizes from 1 to 32, such as 128,64");
}

TEST(EmbedTask, DataMustHaveSomethingToContrast) {
  const TemporaryFolder folder;
  std::ofstream(folder / "one.jsonl") << R"({"query":"a","positive":"b"})";
  EXPECT_EQ(message_of([&] { read_retrieval(folder / "one.jsonl"); }),
            (folder / "one.jsonl").native() + ": has 1 examples; a contrast needs at least 2");
  std::ofstream(folder / "bad.jsonl") << R"({"query":"a"})"
                                      << "\n";
  EXPECT_NE(message_of([&] { read_retrieval(folder / "bad.jsonl"); }).find("positive"),
            std::string::npos);
}

/// One of three passages names the answer.
void write_fid(const std::filesystem::path& path, int count) {
  std::ofstream file(path);
  for (int i = 0; i < count; ++i) {
    const char answer = static_cast<char>('a' + i % 4);
    std::string passages;
    for (int p = 0; p < 3; ++p) {
      passages += p > 0 ? "," : "";
      passages += p == i % 3 ? std::string(R"({"title":"t","text":"it is )") + answer + "\"}"
                             : R"({"title":"t","text":"no"})";
    }
    file << R"({"question":"what","answers":[")" << answer << R"("],"ctxs":[)" << passages
         << "]}\n";
  }
}

TEST(FidTask, LearnsToReadTheRightPassage) {
  const TemporaryFolder folder;
  write_fid(folder / "questions.jsonl", 64);
  TrainOptions options = small_options("fid", folder / "questions.jsonl", folder / "run");
  options.tokenizer = "char";
  options.context = 48;
  options.batch = 16;
  options.lr = 1e-3;  // with which six of six seeds have learned it after 300 steps
  options.validation = folder / "questions.jsonl";
  options.steps = 400;
  options.eval_every = 400;
  const TrainResult result = train(options);
  EXPECT_GT(metrics_of(result).at("val_exact_match"), 0.9);
  // The reader looks at the passage that has the answer.
  const std::unique_ptr<Model> model = load_model(folder / "run");
  const Tokenizer tokenizer = Tokenizer::load(folder / "run" / "model");
  const std::vector<double> scores = fid_passage_scores(
      *model, fid_input(tokenizer, "what", {{"t", "no"}, {"t", "it is c"}, {"t", "no"}}));
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_GT(scores[1], scores[0]);
  EXPECT_GT(scores[1], scores[2]);
}

TEST(FidTask, ReadsTheReferencesFormatAndNamesWhatIsMissing) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.json")
      << R"([{"id":"1","question":"q","target":"t","answers":["a","b"],)"
      << R"("ctxs":[{"id":"9","title":"T","text":"x","score":"1.5"}]}])";
  const std::vector<FidExample> examples = read_fid(folder / "a.json");
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_EQ(examples[0].target, "t");
  EXPECT_EQ(examples[0].passages[0].source, "T");
  EXPECT_EQ(fid_text("q", "T", "x"), "question: q title: T context: x");
  std::ofstream(folder / "b.jsonl") << R"({"question":"q","answers":[],"ctxs":[]})"
                                    << "\n";
  EXPECT_NE(message_of([&] { read_fid(folder / "b.jsonl"); }).find("has no answer"),
            std::string::npos);
  std::ofstream(folder / "c.jsonl") << R"({"question":"q","target":"a","ctxs":[]})"
                                    << "\n";
  TrainOptions options = small_options("fid", folder / "c.jsonl", folder / "run");
  EXPECT_NE(message_of([&] { train(options); }).find("has up to 0 passages per question"),
            std::string::npos);
}

}  // namespace
}  // namespace heed::test
