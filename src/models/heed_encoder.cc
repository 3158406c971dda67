#include "base/check.h"
#include "models/heads.h"
#include "models/layers.h"
#include "models/registry.h"

namespace heed {
namespace {

/// heed-encoder, the simple Transformer: token and learned position embeddings, post-LN blocks.
/// `head` is "none", "mlm" (a token for every position) or "lm" (causal: the next token).
class SimpleEncoder final : public SimpleEncoderModel {
 public:
  SimpleEncoder(const Json& config, const Scope& root)
      : SimpleEncoderModel(config, root, "heed-encoder", {}, head_of(config) == "lm"),
        causal_(head_of(config) == "lm") {
    if (head_of(config) != "none") {
      head_ = tutorial_head(root / "lm_head", stack_.tokens(),
                            config.boolean_or("tie_word_embeddings", true));
    }
  }

  ModelKind kind() const override { return causal_ ? ModelKind::decoder : ModelKind::encoder; }

  ModelOutput do_forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const Tensor rows = run(tokens, input);
    if (head_.defined()) {
      return token_results(rows, tokens, head_, input,
                           causal_ ? next_token_targets : same_position_targets);
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    return output;
  }

  SequenceCache new_cache(int64_t capacity) const override {
    return causal_ ? self_caches(num_layers_, num_heads_, std::min(capacity, context_length_),
                                 sizes_.head_dim(), kv_type_)
                   : Model::new_cache(capacity);
  }

  Tensor decode(const Tensor& ids, Pass& pass) const override {
    if (!causal_) {
      return Model::decode(ids, pass);
    }
    Tensor rows = stack_(ids, pass.positions(), pass, gradient_checkpointing_, nullptr);
    advance_caches(pass);
    return rows;
  }

  Tensor do_logits(const Tensor& rows) const override {
    return head_.defined() ? head_(rows) : Model::do_logits(rows);
  }

 private:
  static std::string head_of(const Json& config) {
    std::string head = config.string_or("head", "none");
    check_data(head == "none" || head == "mlm" || head == "lm", config.file(),
               "head '{}' is not known; use none, mlm or lm", head);
    return head;
  }

  bool causal_ = false;
  Linear head_;
};

}  // namespace

ModelSpec heed_encoder_spec() {
  ModelSpec spec;
  spec.model_type = "heed-encoder";
  spec.kind = ModelKind::encoder;
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<SimpleEncoder>(config, scope);
  };
  return spec;
}

}  // namespace heed
