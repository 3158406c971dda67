#include "models/heed_encoder.h"

#include "base/check.h"
#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/sparse_mixers.h"
#include "models/task_heads.h"

namespace heed {
namespace {

/// Random features of each head, where a Performer's configuration does not say.
constexpr int64_t kFeatures = 128;

bool is_causal(const std::string& head) { return head == "lm"; }

std::string head_name(const Json& config, const SimpleEncoderFamily& family) {
  std::string head = config.string_or("head", family.head);
  check_data(head == "none" || head == "mlm" || head == "lm" || head == "classify", config.file(),
             "head '{}' is not known; use none, mlm, lm or classify", head);
  return head;
}

StackSizes sizes_of(const Json& config, const SimpleEncoderFamily& family, bool causal) {
  StackSizes sizes = simple_sizes(config);
  if (family.performer) {
    EncoderConfig layer;
    layer.hidden_size = sizes.width;
    layer.num_heads = sizes.heads;
    layer.init = glorot(sizes.width, sizes.width);
    layer.attention_bias = sizes.attention_bias;
    layer.output_bias = sizes.attention_bias;
    layer.names.query = "q_proj";
    layer.names.key = "k_proj";
    layer.names.value = "v_proj";
    layer.names.output = "out_proj";
    const int64_t features = size_or(config, "num_random_features", kFeatures);
    sizes.make_mixer = [=](const Scope& scope, int64_t index) {
      return performer_mixer(scope, layer, features, causal, index);
    };
  }
  return sizes;
}

/// Token and learned position embeddings and blocks. `head` is "none", "mlm" (a token for every
/// position), "lm" (causal: the next token) or "classify" (a class from the mean over real tokens,
/// with `classifier_hidden_size` through one more layer, ReLU and dropout).
class SimpleEncoder final : public SimpleEncoderModel {
 public:
  SimpleEncoder(const Json& config, const Scope& root, const SimpleEncoderFamily& family)
      : SimpleEncoderModel(config, root, family.model_type, {},
                           is_causal(head_name(config, family)),
                           sizes_of(config, family, is_causal(head_name(config, family)))),
        performer_(family.performer),
        causal_(is_causal(head_name(config, family))) {
    const std::string head = head_name(config, family);
    if (head == "mlm" || head == "lm") {
      head_ = tutorial_head(root / "lm_head", stack_.tokens(),
                            config.boolean_or("tie_word_embeddings", true));
    } else if (head == "classify") {
      make_classification_head(config, root);
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
    if (classifier_.defined()) {
      const Pass pass = tokens.pass(input);
      Tensor pooled = mean_rows(rows, tokens.layout);
      if (dense_.defined()) {
        pooled = dense_(pooled, Activation::relu);
      }
      return sequence_results(pass.dropout(pooled, sizes_.dropout), classifier_, input);
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    return output;
  }

  SequenceCache new_cache(int64_t capacity) const override {
    if (!causal_) {
      return Model::new_cache(capacity);
    }
    return performer_ ? performer_cache(num_layers_)
                      : self_caches(num_layers_, num_heads_, std::min(capacity, context_length_),
                                    sizes_.head_dim(), kv_type_);
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
  void make_classification_head(const Json& config, const Scope& root) {
    const int64_t labels = label_count(config, 3);
    const int64_t inner = config.integer_or("classifier_hidden_size", 0, 0, int64_t{1} << 24);
    if (inner == 0) {
      classifier_ =
          make_classifier(config, root, hidden_size_, labels, glorot(hidden_size_, labels));
      return;
    }
    check_size(config, root,
               static_cast<double>(inner) * static_cast<double>(hidden_size_ + labels));
    dense_ = Linear(root / "classifier" / "dense", hidden_size_, inner,
                    {.init = glorot(hidden_size_, inner)});
    classifier_ =
        Linear(root / "classifier" / "out_proj", inner, labels, {.init = glorot(inner, labels)});
  }

  bool performer_ = false;
  bool causal_ = false;
  Linear head_, dense_, classifier_;
};

}  // namespace

std::unique_ptr<Model> make_simple_encoder(const Json& config, const Scope& root,
                                           const SimpleEncoderFamily& family) {
  return std::make_unique<SimpleEncoder>(config, root, family);
}

ModelSpec simple_encoder_spec(const SimpleEncoderFamily& family,
                              const std::vector<std::string>& tasks) {
  ModelSpec spec;
  spec.model_type = family.model_type;
  spec.kind = ModelKind::encoder;
  spec.heads = {
      {"", "text-classification", "classifier."}, {"", "fill-mask", "lm_head."}, {"", "", ""}};
  spec.train_tasks = tasks;
  spec.fresh_tokenizer = "wordpiece:8192";
  spec.fresh_config = [family](const FreshSizes& sizes) {
    constexpr int64_t kClassifier = 128;
    JsonBuilder config = stack_fresh_config(family.model_type, sizes);
    config.set("attention_bias", false).set("final_norm", true);
    if (sizes.task == "classify") {
      config.set("head", "classify").set("classifier_hidden_size", kClassifier);
    } else {
      config.set("head", sizes.task);
    }
    if (family.performer) {
      config.set("num_random_features", kFeatures).set("pre_norm", true);
    }
    return config;
  };
  spec.make = [family](const Json& config, const Scope& scope) {
    return make_simple_encoder(config, scope, family);
  };
  return spec;
}

/// The simple Transformer. Fresh ones are as in the tutorial: no biases in attention, and a norm
/// behind the last block.
ModelSpec heed_encoder_spec() {
  return simple_encoder_spec({.model_type = "heed-encoder"}, {"mlm", "lm", "classify"});
}

/// The same with a classifier (3 classes by default: negative, neutral, positive).
ModelSpec heed_sentiment_spec() {
  ModelSpec spec =
      simple_encoder_spec({.model_type = "heed-sentiment", .head = "classify"}, {"classify"});
  spec.fresh_tokenizer.clear();
  return spec;
}

/// Performer (Choromanski et al. 2021): the simple Transformer with FAVOR+, encoder or causal.
ModelSpec heed_performer_spec() {
  return simple_encoder_spec({.model_type = "heed-performer", .performer = true},
                             {"mlm", "lm", "classify"});
}

}  // namespace heed
