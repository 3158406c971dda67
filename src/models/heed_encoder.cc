#include "base/check.h"
#include "models/heads.h"
#include "models/layers.h"
#include "models/registry.h"

namespace heed {
namespace {

/// heed-encoder, the simple Transformer: token and learned position embeddings, post-LN blocks.
/// `head` is "none", "mlm" (a word for every place) or "lm" (causal: the next word).
class SimpleEncoder final : public Model {
 public:
  SimpleEncoder(const Json& config, const Scope& root) {
    const std::string head = config.string_or("head", "none");
    check_data(head == "none" || head == "mlm" || head == "lm", config.file(),
               "head '{}' is not known; use none, mlm or lm", head);
    causal_ = head == "lm";
    sizes_ = stack_sizes(config, "encoder");
    context_ = extent(config, "max_position_embeddings");
    vocabulary_ = extent(config, "vocab_size");
    stack_ = simple_encoder(config, root, causal_);
    if (head != "none" && config.boolean_or("tie_word_embeddings", true)) {
      root.alias("lm_head.weight");
      head_ = Linear(stack_.tokens().weight(),
                     (root / "lm_head").parameter("bias", {vocabulary_}, Init::zeros()));
    } else if (head != "none") {
      head_ = Linear(root / "lm_head", sizes_.width, vocabulary_,
                     {.init = glorot(sizes_.width, vocabulary_)});
    }
  }

  ModelKind kind() const override { return causal_ ? ModelKind::decoder : ModelKind::encoder; }
  int64_t vocabulary() const override { return vocabulary_; }
  int64_t context() const override { return context_; }
  int64_t width() const override { return sizes_.width; }
  int64_t layers() const override { return sizes_.layers; }
  int64_t heads() const override { return sizes_.heads; }

  ModelOutput forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const Tensor rows = run(tokens, input);
    ModelOutput output;
    if (!head_.defined()) {
      output.last_hidden_state = tokens.to_batch(rows);
      return output;
    }
    if (input.want_logits) {
      output.logits = tokens.to_batch(observe("hook_logits", head_(rows)));
    }
    if (input.labels.defined()) {
      output.loss = causal_ ? shifted_loss(rows, tokens, head_, input)
                            : token_loss(rows, tokens, head_, input);
    }
    return output;
  }

  Memory encode(const ModelInput& input) const override {
    const TokenRows tokens = read(input, true);
    return {run(tokens, input), tokens.layout};
  }

  SequenceCache new_cache(int64_t capacity) const override {
    if (!causal_) {
      return Model::new_cache(capacity);
    }
    SequenceCache cache;
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      cache.self.emplace_back(sizes_.heads, std::min(capacity, context_), sizes_.head_width(),
                              sizes_.head_width());
    }
    return cache;
  }

  Tensor decode(const Tensor& ids, Pass& pass) const override {
    if (!causal_) {
      return Model::decode(ids, pass);
    }
    Tensor rows = stack_(ids, pass.positions(), pass, recompute_, nullptr);
    for (size_t i = 0; i < pass.caches.size(); ++i) {
      pass.caches[i]->length += pass.layout.length_of(static_cast<int64_t>(i));
    }
    return rows;
  }

  Tensor logits(const Tensor& rows) const override {
    return head_.defined() ? head_(rows) : Model::logits(rows);
  }

 private:
  TokenRows read(const ModelInput& input, bool skip_padding) const {
    check_inputs(input, {}, "heed-encoder");
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

  bool causal_ = false;
  StackSizes sizes_;
  int64_t context_ = 0, vocabulary_ = 0;
  TokenStack stack_;
  Linear head_;
};

}  // namespace

std::unique_ptr<Model> make_heed_encoder(const Json& config, const Scope& scope) {
  return std::make_unique<SimpleEncoder>(config, scope);
}

}  // namespace heed
