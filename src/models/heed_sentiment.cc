#include "models/heads.h"
#include "models/layers.h"
#include "models/registry.h"

namespace heed {
namespace {

/// heed-sentiment: the simple encoder, the mean over real tokens, and a classifier (3 classes by
/// default: negative, neutral, positive).
class Sentiment final : public Model {
 public:
  Sentiment(const Json& config, const Scope& root)
      : sizes_(stack_sizes(config, "encoder")),
        context_(extent(config, "max_position_embeddings")),
        vocabulary_(extent(config, "vocab_size")),
        stack_(simple_encoder(config, root, false)) {
    const int64_t labels = label_count(config, 3);
    classifier_ = make_classifier(config, root, sizes_.width, labels, glorot(sizes_.width, labels));
  }

  ModelKind kind() const override { return ModelKind::encoder; }
  int64_t vocabulary() const override { return vocabulary_; }
  int64_t context() const override { return context_; }
  int64_t width() const override { return sizes_.width; }
  int64_t layers() const override { return sizes_.layers; }
  int64_t heads() const override { return sizes_.heads; }

  ModelOutput forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const Tensor pooled = mean_rows(run(tokens, input), tokens.layout);
    ModelOutput output;
    output.logits =
        observe("hook_logits", classifier_(dropout(pooled, sizes_.dropout, input.training)));
    if (input.labels.defined()) {
      output.loss = sequence_loss(output.logits, input);
    }
    return output;
  }

  Memory encode(const ModelInput& input) const override {
    const TokenRows tokens = read(input, true);
    return {run(tokens, input), tokens.layout};
  }

 private:
  TokenRows read(const ModelInput& input, bool skip_padding) const {
    check_inputs(input, {}, "heed-sentiment");
    TokenRows tokens = token_rows(input.input_ids, input.attention_mask, vocabulary_, skip_padding);
    check_length(tokens.length, context_);
    return tokens;
  }

  Tensor run(const TokenRows& tokens, const ModelInput& input) const {
    Pass pass;
    pass.layout = tokens.layout;
    pass.training = input.training;
    return stack_(tokens.ids, tokens.positions, pass, recompute_, &tokens);
  }

  StackSizes sizes_;
  int64_t context_ = 0, vocabulary_ = 0;
  TokenStack stack_;
  Linear classifier_;
};

}  // namespace

std::unique_ptr<Model> make_heed_sentiment(const Json& config, const Scope& scope) {
  return std::make_unique<Sentiment>(config, scope);
}

}  // namespace heed
