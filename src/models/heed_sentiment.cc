#include "models/heads.h"
#include "models/layers.h"
#include "models/registry.h"

namespace heed {
namespace {

/// heed-sentiment: the simple encoder, the mean over real tokens, and a classifier (3 classes by
/// default: negative, neutral, positive).
class Sentiment final : public SimpleEncoderModel {
 public:
  Sentiment(const Json& config, const Scope& root)
      : SimpleEncoderModel(config, root, "heed-sentiment", {}, false) {
    const int64_t labels = label_count(config, 3);
    classifier_ = make_classifier(config, root, hidden_size_, labels, glorot(hidden_size_, labels));
  }

  ModelOutput forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const Tensor pooled = mean_rows(run(tokens, input), tokens.layout);
    return sequence_results(tokens.pass(input).dropout(pooled, sizes_.dropout), classifier_, input);
  }

 private:
  Linear classifier_;
};

}  // namespace

std::unique_ptr<Model> make_heed_sentiment(const Json& config, const Scope& scope) {
  return std::make_unique<Sentiment>(config, scope);
}

}  // namespace heed
