#include "models/fresh_config.h"
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

  ModelOutput do_forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const Tensor pooled = mean_rows(run(tokens, input), tokens.layout);
    return sequence_results(tokens.pass(input).dropout(pooled, sizes_.dropout), classifier_, input);
  }

 private:
  Linear classifier_;
};

}  // namespace

ModelSpec heed_sentiment_spec() {
  ModelSpec spec;
  spec.model_type = "heed-sentiment";
  spec.kind = ModelKind::encoder;
  spec.heads = {{"", "text-classification", ""}};
  spec.train_tasks = {"classify"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    return stack_fresh_config("heed-sentiment", sizes);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Sentiment>(config, scope);
  };
  return spec;
}

}  // namespace heed
