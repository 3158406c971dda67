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

FidExample example_of(const Json& row) {
  FidExample example;
  example.question = row.string("question");
  if (row.has("target")) {
    example.target = row.string("target");
  } else {
    const std::vector<std::string> answers = row.at("answers").strings();
    if (answers.empty()) {
      row.refuse("has no answer; `target` or one of `answers` is wanted");
    }
    example.target = answers.front();
  }
  for (const Json& passage : row.at("ctxs").elements()) {
    example.passages.push_back({passage.string_or("title", ""), passage.string("text")});
  }
  return example;
}

class FidLoader final : public Loader {
 public:
  FidLoader(TokenShard passages, TokenShard targets, int64_t per_example,
            const SequenceTokens& tokens, const LoaderOptions& options)
      : Loader(options),
        passages_(std::move(passages)),
        targets_(std::move(targets)),
        per_example_(per_example),
        tokens_(tokens) {
    const uint64_t both[2] = {passages_.fingerprint(), targets_.fingerprint()};
    set_examples(targets_.sequences(), fingerprint_of(both, sizeof(both), 0), true);
  }

 protected:
  int64_t length_of(int64_t example) const override {
    int64_t length = targets_.length(example);
    for (int64_t i = 0; i < per_example_; ++i) {
      length += passages_.length(example * per_example_ + i);
    }
    return length;
  }

  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch batch;
    fill_inputs(batch, passages_, sequences_of(examples, per_example_), tokens_,
                options().max_length);
    fill_targets(batch, targets_, examples, tokens_, options().max_length);
    batch.passages = per_example_;
    return rank_rows(batch, begin, end);
  }

 private:
  TokenShard passages_;  ///< per_example_ for each example
  TokenShard targets_;
  int64_t per_example_;
  SequenceTokens tokens_;
};

}  // namespace

std::string fid_text(std::string_view question, std::string_view title, std::string_view text) {
  return fmt::format("question: {} title: {} context: {}", question, title, text);
}

std::vector<FidExample> read_fid(const std::string& data) {
  std::vector<FidExample> examples;
  if (std::filesystem::path(data).extension() == ".json") {
    for (const Json& row : Json::read(data).elements()) {
      examples.push_back(example_of(row));
    }
  } else {
    LineReader lines(data);
    for (std::string_view line; lines.next(line);) {
      if (line.find_first_not_of(" \t") != std::string_view::npos) {
        examples.push_back(example_of(Json::parse(line, lines.where())));
      }
    }
  }
  check_data(!examples.empty(), data, "has no examples");
  return examples;
}

std::unique_ptr<Loader> make_fid_loader(const std::vector<FidExample>& examples, int64_t passages,
                                        const Tokenizer& tokenizer, const SequenceTokens& tokens,
                                        const LoaderOptions& options) {
  check(passages >= 1, "fid", "{} passages per example", passages);
  std::vector<std::string> texts, targets;
  for (const FidExample& example : examples) {
    for (int64_t i = 0; i < passages; ++i) {
      const bool there = i < static_cast<int64_t>(example.passages.size());
      const TextPair passage = there ? example.passages[static_cast<size_t>(i)] : TextPair{};
      texts.push_back(fid_text(example.question, passage.source, passage.target));
    }
    targets.push_back(example.target);
  }
  return std::make_unique<FidLoader>(tokenize_all(texts, tokenizer),
                                     tokenize_all(targets, tokenizer), passages, tokens, options);
}

}  // namespace heed
