#include "base/check.h"
#include "base/checksum.h"
#include "data/targets.h"
#include "heed/data.h"

namespace heed {
namespace {

class PairLoader final : public Loader {
 public:
  PairLoader(const PairData& data, const SequenceTokens& tokens, const LoaderOptions& options)
      : Loader(options), data_(data), tokens_(tokens) {
    check(data.source.sequences() == data.target.sequences(), "pairs", "{} sources, {} targets",
          data.source.sequences(), data.target.sequences());
    const uint64_t both[2] = {data.source.fingerprint(), data.target.fingerprint()};
    set_examples(data.source.sequences(), fingerprint_of(both, sizeof(both), 0), true);
  }

 protected:
  int64_t length_of(int64_t example) const override {
    return data_.source.length(example) + data_.target.length(example);
  }
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch batch;
    fill_inputs(batch, data_.source, examples, tokens_, options().max_length);
    fill_targets(batch, data_.target, examples, tokens_, options().max_length);
    return rank_rows(batch, begin, end);
  }

 private:
  PairData data_;
  SequenceTokens tokens_;
};

class ClassLoader final : public Loader {
 public:
  ClassLoader(const LabelledData& data, const SequenceTokens& tokens, const LoaderOptions& options)
      : Loader(options), data_(data), tokens_(tokens) {
    check(data.text.sequences() == data.label.tokens() &&
              data.label.sequences() == data.label.tokens(),
          "labels", "{} texts, {} labels", data.text.sequences(), data.label.tokens());
    const uint64_t both[2] = {data.text.fingerprint(), data.label.fingerprint()};
    set_examples(data.text.sequences(), fingerprint_of(both, sizeof(both), 0), true);
  }

 protected:
  int64_t length_of(int64_t example) const override { return data_.text.length(example); }
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch batch;
    fill_inputs(batch, data_.text, examples, tokens_, options().max_length);
    batch.labels = Tensor::empty({batch.rows}, DType::i64);
    for (int64_t row = 0; row < batch.rows; ++row) {
      data_.label.copy(examples[static_cast<size_t>(row)], 1, batch.labels.data<int64_t>() + row);
    }
    return rank_rows(batch, begin, end);
  }

 private:
  LabelledData data_;
  SequenceTokens tokens_;
};

}  // namespace

std::unique_ptr<Loader> make_pair_loader(const PairData& data, const SequenceTokens& tokens,
                                         const LoaderOptions& options) {
  return std::make_unique<PairLoader>(data, tokens, options);
}

std::unique_ptr<Loader> make_class_loader(const LabelledData& data, const SequenceTokens& tokens,
                                          const LoaderOptions& options) {
  return std::make_unique<ClassLoader>(data, tokens, options);
}

}  // namespace heed
