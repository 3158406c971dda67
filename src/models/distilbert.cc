#include "base/check.h"
#include "models/common.h"
#include "models/heads.h"
#include "models/registry.h"

namespace heed {
namespace {

enum class DistilHead { none, masked, sequence };

DistilHead distil_head_of(const Json& config, const Scope& root) {
  const auto named = named_head<DistilHead>(
      config, {{"DistilBertModel", DistilHead::none},
               {"DistilBertForMaskedLM", DistilHead::masked},
               {"DistilBertForSequenceClassification", DistilHead::sequence}});
  if (named) {
    return *named;
  }
  if (root.has("pre_classifier.weight")) {
    return DistilHead::sequence;
  }
  return root.is_fresh() || root.has("vocab_transform.weight") ? DistilHead::masked
                                                               : DistilHead::none;
}

/// DistilBERT: BERT's blocks without segments and without a pooler.
class DistilBert final : public SizedModel {
 public:
  DistilBert(const Json& config, const Scope& root) : head_(distil_head_of(config, root)) {
    hidden_size_ = size_of(config, "dim");
    num_layers_ = layer_count(config, "n_layers");
    num_heads_ = size_of(config, "n_heads");
    intermediate_size_ = size_of(config, "hidden_dim");
    context_length_ = size_of(config, "max_position_embeddings");
    vocab_size_ = size_of(config, "vocab_size");
    check_size(
        config, root,
        static_cast<double>(vocab_size_ + context_length_) * static_cast<double>(hidden_size_) +
            static_cast<double>(num_layers_) * static_cast<double>(hidden_size_) *
                static_cast<double>(4 * hidden_size_ + 2 * intermediate_size_));
    init_ = Init::normal(positive_or(config, "initializer_range", 0.02));
    dropout_ = rate_or(config, "dropout", 0.1);
    activation_ = activation_of(config, "activation", "gelu");
    root.allow_prefix("distilbert.");
    root.ignore({"*embeddings.position_ids"});
    const Scope base = head_ == DistilHead::none ? root : root / "distilbert";
    const Scope embeddings = base / "embeddings";
    const auto padding = padding_token(config, 0, vocab_size_);
    words_ = Embedding(embeddings / "word_embeddings", vocab_size_, hidden_size_, init_, padding);
    positions_ =
        Embedding(embeddings / "position_embeddings", context_length_, hidden_size_, init_);
    norm_ = Norm(embeddings / "LayerNorm", hidden_size_, kEps);
    for (int64_t i = 0; i < num_layers_; ++i) {
      blocks_.push_back(make_block(config, base / "transformer" / "layer" / i));
    }
    if (head_ == DistilHead::sequence) {
      before_ = Linear(root / "pre_classifier", hidden_size_, hidden_size_, {.init = init_});
      out_ = make_classifier(config, root, hidden_size_, label_count(config), init_);
      classifier_dropout_ = rate_or(config, "seq_classif_dropout", 0.2);
      problem_ = problem_type_of(config);
    } else if (head_ == DistilHead::masked) {
      before_ = Linear(root / "vocab_transform", hidden_size_, hidden_size_, {.init = init_});
      before_norm_ = Norm(root / "vocab_layer_norm", hidden_size_, kEps);
      const Scope projector = root / "vocab_projector";
      const Tensor bias = projector.parameter("bias", {vocab_size_}, Init::zeros());
      out_ = lm_head(config, projector, words_, bias, init_);
    }
  }

  ModelKind kind() const override { return ModelKind::encoder; }

  ModelOutput forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const Tensor rows = run(tokens, input);
    if (head_ == DistilHead::none) {
      ModelOutput output;
      output.last_hidden_state = tokens.to_batch(rows);
      return output;
    }
    if (head_ == DistilHead::sequence) {
      const Tensor first = before_(first_rows(rows, tokens.layout), Activation::relu);
      return sequence_results(tokens.pass(input).dropout(first, classifier_dropout_), out_, input,
                              problem_);
    }
    return token_results(before_norm_(before_(rows, activation_)), tokens, out_, input,
                         same_position_targets);
  }

  EncoderOutput encode(const ModelInput& input) const override {
    const TokenRows tokens = read(input, true);
    return {run(tokens, input), tokens.layout};
  }

 private:
  static constexpr double kEps = 1e-12;

  Block make_block(const Json& config, const Scope& scope) const {
    MultiHeadAttention::Options options;
    options.num_heads = num_heads_;
    options.head_dim = head_dim(config, "dim", hidden_size_, "n_heads", num_heads_);
    options.dropout = rate_or(config, "attention_dropout", 0.1);
    auto dense = [&](const Scope& at, int64_t in, int64_t out) {
      return Linear(at, in, out, {.init = init_});
    };
    const Scope attention = scope / "attention";
    Block::Parts parts;
    parts.pre_norm = false;
    parts.attention =
        MultiHeadAttention(dense(attention / "q_lin", hidden_size_, hidden_size_),
                           dense(attention / "k_lin", hidden_size_, hidden_size_),
                           dense(attention / "v_lin", hidden_size_, hidden_size_),
                           dense(attention / "out_lin", hidden_size_, hidden_size_), options);
    parts.attention_norm = Norm(scope / "sa_layer_norm", hidden_size_, kEps);
    parts.feed_forward =
        FeedForward(dense(scope / "ffn" / "lin1", hidden_size_, intermediate_size_),
                    dense(scope / "ffn" / "lin2", intermediate_size_, hidden_size_), activation_);
    parts.feed_forward_norm = Norm(scope / "output_layer_norm", hidden_size_, kEps);
    parts.dropout = dropout_;
    parts.attention_dropout = 0.0;
    return Block(std::move(parts));
  }

  TokenRows read(const ModelInput& input, bool skip_padding) const {
    return read_tokens(input, {}, "DistilBERT", vocab_size_, context_length_, skip_padding);
  }

  Tensor run(const TokenRows& tokens, const ModelInput& input) const {
    const Pass pass = tokens.pass(input);
    Tensor rows = add(observe("hook_embed", words_(tokens.ids)),
                      observe("hook_pos_embed", positions_(tokens.positions)));
    rows = pass.dropout(norm_(rows), dropout_);
    return run_stack(blocks_, {}, rows, pass, gradient_checkpointing_, &tokens);
  }

  DistilHead head_;
  int64_t intermediate_size_ = 0;
  double dropout_ = 0.0, classifier_dropout_ = 0.0;
  ProblemType problem_ = ProblemType::unspecified;
  Init init_;
  Activation activation_ = Activation::gelu;
  Embedding words_, positions_;
  Norm norm_, before_norm_;
  std::vector<Block> blocks_;
  Linear before_, out_;
};

}  // namespace

ModelSpec distilbert_spec() {
  ModelSpec spec;
  spec.model_type = "distilbert";
  spec.kind = ModelKind::encoder;
  spec.heads = {{"DistilBertForMaskedLM", "fill-mask", "vocab_"},
                {"DistilBertForSequenceClassification", "text-classification", "pre_classifier."},
                {"DistilBertModel", "", ""}};
  spec.ties = {.prefix = "distilbert.",
               .embedding = "embeddings.word_embeddings.weight",
               .lm_head = "vocab_projector.weight"};
  spec.train_tasks = {"mlm", "classify"};
  spec.fresh_tokenizer = "wordpiece:8192";
  spec.fresh_config = [](const FreshSizes& sizes) {
    return JsonBuilder()
        .set("model_type", "distilbert")
        .set("architectures", std::vector<std::string>{sizes.task == "classify"
                                                           ? "DistilBertForSequenceClassification"
                                                           : "DistilBertForMaskedLM"})
        .set("vocab_size", sizes.vocab_size)
        .set("dim", sizes.hidden_size)
        .set("n_layers", sizes.num_layers)
        .set("n_heads", sizes.num_heads)
        .set("hidden_dim", sizes.intermediate_size)
        .set("max_position_embeddings", sizes.context_length)
        .set("dropout", sizes.dropout)
        .set("attention_dropout", sizes.dropout);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<DistilBert>(config, scope);
  };
  return spec;
}

}  // namespace heed
