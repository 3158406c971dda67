#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "data/block_reader.h"
#include "data/targets.h"
#include "heed/data.h"
#include "heed/io.h"
#include "heed/text.h"

namespace heed {
namespace {

RetrievalExample example_of(const Json& row) {
  RetrievalExample example;
  example.query = row.string(row.has("anchor") ? "anchor" : "query");
  example.positive = row.string("positive");
  if (const auto negative = row.find("negative")) {
    example.negatives.push_back(negative->string());
  }
  if (const auto negatives = row.find("negatives")) {
    for (std::string& text : negatives->strings()) {
      example.negatives.push_back(std::move(text));
    }
  }
  return example;
}

class RetrievalLoader final : public Loader {
 public:
  RetrievalLoader(TokenShard texts, int64_t per_example, const SequenceTokens& tokens,
                  const LoaderOptions& options)
      : Loader(options), texts_(std::move(texts)), per_example_(per_example), tokens_(tokens) {
    // In-batch negatives are to be any texts, not those of the same length.
    set_examples(texts_.sequences() / per_example, texts_.fingerprint(), false);
  }

 protected:
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch batch;
    fill_inputs(batch, texts_, sequences_of(examples, per_example_), tokens_, options().max_length);
    const auto rows = static_cast<int64_t>(examples.size());
    batch.labels = Tensor::zeros({rows}, DType::i64);
    batch.rows = rows;
    batch.passages = per_example_;
    Batch part = batch_rows(batch, begin, end);
    part.global_targets = rows;
    return part;
  }

 private:
  TokenShard texts_;  ///< per_example_ for each example
  int64_t per_example_;
  SequenceTokens tokens_;
};

}  // namespace

std::vector<RetrievalExample> read_retrieval(const std::string& data) {
  std::vector<RetrievalExample> examples;
  if (std::filesystem::path(data).extension() == ".jsonl") {
    LineReader lines(data);
    for (std::string_view line; lines.next(line);) {
      if (line.find_first_not_of(" \t") != std::string_view::npos) {
        examples.push_back(example_of(Json::parse(line, lines.where())));
      }
    }
  } else {
    for (TextPair& pair : read_pairs(data)) {
      examples.push_back({std::move(pair.source), std::move(pair.target), {}});
    }
  }
  check_data(examples.size() >= 2, data, "has {} examples; a contrast needs at least 2",
             examples.size());
  return examples;
}

std::unique_ptr<Loader> make_retrieval_loader(const std::vector<RetrievalExample>& examples,
                                              const Tokenizer& tokenizer,
                                              const SequenceTokens& tokens,
                                              const LoaderOptions& options) {
  constexpr size_t kMostNegatives = 31;
  size_t negatives = 0;
  for (const RetrievalExample& example : examples) {
    negatives = std::max(negatives, example.negatives.size());
  }
  negatives = std::min(negatives, kMostNegatives);
  std::vector<std::string> texts;
  for (size_t i = 0; i < examples.size(); ++i) {
    texts.push_back(examples[i].query);
    texts.push_back(examples[i].positive);
    for (size_t n = 0; n < negatives; ++n) {
      texts.push_back(n < examples[i].negatives.size()
                          ? examples[i].negatives[n]
                          : examples[(i + n + 1) % examples.size()].positive);
    }
  }
  return std::make_unique<RetrievalLoader>(tokenize_all(texts, tokenizer),
                                           static_cast<int64_t>(negatives) + 2, tokens, options);
}

}  // namespace heed
