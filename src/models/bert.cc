#include "base/check.h"
#include "base/dropout_streams.h"
#include "models/common.h"
#include "models/heads.h"
#include "models/registry.h"

namespace heed {
namespace {

enum class Head { none, masked, sequence, tokens };

Head head_of(const Json& config, const Scope& root) {
  const auto named = named_head<Head>(config, {{"BertModel", Head::none},
                                               {"BertForMaskedLM", Head::masked},
                                               {"BertForPreTraining", Head::masked},
                                               {"BertForSequenceClassification", Head::sequence},
                                               {"BertForTokenClassification", Head::tokens}});
  if (named) {
    return *named;
  }
  if (root.has("classifier.weight")) {
    return root.has("bert.pooler.dense.weight") ? Head::sequence : Head::tokens;
  }
  const bool masked = root.is_fresh() || root.has("cls.predictions.transform.dense.weight");
  return masked ? Head::masked : Head::none;
}

/// BERT: token, position and segment embeddings, post-LN blocks without a causal mask; a pooler, or
/// a head over tokens or sequences.
class Bert final : public SizedModel {
 public:
  Bert(const Json& config, const Scope& root) : head_(head_of(config, root)) {
    check_data(!config.boolean_or("is_decoder", false), config.file(),
               "is_decoder: BERT as a decoder is not supported");
    check_data(config.string_or("position_embedding_type", "absolute") == "absolute", config.file(),
               "position_embedding_type must be absolute");
    width_ = extent(config, "hidden_size");
    layers_ = layer_count(config, "num_hidden_layers");
    heads_ = extent(config, "num_attention_heads");
    context_ = extent(config, "max_position_embeddings");
    vocabulary_ = extent(config, "vocab_size");
    types_ = extent_or(config, "type_vocab_size", 2);
    inner_ = extent(config, "intermediate_size");
    check_size(config, root,
               static_cast<double>(vocabulary_ + context_ + types_) * static_cast<double>(width_) +
                   static_cast<double>(layers_) * static_cast<double>(width_) *
                       static_cast<double>(4 * width_ + 2 * inner_));
    eps_ = positive_or(config, "layer_norm_eps", 1e-12);
    init_ = Init::normal(positive_or(config, "initializer_range", 0.02));
    dropout_ = rate_or(config, "hidden_dropout_prob", 0.1);
    activation_ = activation_of(config, "hidden_act", "gelu");
    root.allow_prefix("bert.");
    root.allow_ending("LayerNorm.weight", "LayerNorm.gamma");
    root.allow_ending("LayerNorm.bias", "LayerNorm.beta");
    root.ignore({"*embeddings.position_ids"});
    const Scope base = head_ == Head::none ? root : root / "bert";
    make_embeddings(config, base / "embeddings");
    for (int64_t i = 0; i < layers_; ++i) {
      blocks_.push_back(make_block(config, base / "encoder" / "layer" / i));
    }
    make_head(config, root, base);
  }

  ModelKind kind() const override { return ModelKind::encoder; }

  ModelOutput forward(const ModelInput& input) const override {
    const TokenRows tokens = read(input, input.skip_padding);
    const Tensor rows = run(tokens, input);
    if (head_ == Head::none) {
      ModelOutput output;
      output.last_hidden_state = tokens.to_batch(rows);
      if (pooler_.defined()) {
        output.pooler_output = pooler_(first_rows(rows, tokens.layout), Activation::tanh);
      }
      return output;
    }
    if (head_ == Head::sequence) {
      const Tensor pooled = pooler_(first_rows(rows, tokens.layout), Activation::tanh);
      return sequence_results(dropout(pooled, classifier_dropout_, input.training), out_, input,
                              problem_);
    }
    const RaggedRows ragged(tokens.layout.starts);
    const Tensor read = head_ == Head::masked ? transform_norm_(transform_(rows, activation_))
                                              : dropout(rows, classifier_dropout_, input.training);
    return token_results(read, tokens, out_, input, token_loss);
  }

  Memory encode(const ModelInput& input) const override {
    const TokenRows tokens = read(input, true);
    return {run(tokens, input), tokens.layout};
  }

 private:
  void make_embeddings(const Json& config, const Scope& scope) {
    const auto padding = padding_token(config, 0, vocabulary_);
    words_ = Embedding(scope / "word_embeddings", vocabulary_, width_, init_, padding);
    positions_ = Embedding(scope / "position_embeddings", context_, width_, init_);
    segments_ = Embedding(scope / "token_type_embeddings", types_, width_, init_);
    norm_ = Norm(scope / "LayerNorm", width_, eps_);
  }

  Block make_block(const Json& config, const Scope& scope) const {
    MultiHeadAttention::Options options;
    options.heads = heads_;
    options.head_width = head_width(config, "hidden_size", width_, "num_attention_heads", heads_);
    options.dropout = rate_or(config, "attention_probs_dropout_prob", 0.1);
    auto dense = [&](const Scope& at, int64_t in, int64_t out) {
      return Linear(at, in, out, {.init = init_});
    };
    const Scope attention = scope / "attention";
    Block::Parts parts;
    parts.pre_norm = false;
    parts.dropout = dropout_;
    parts.attention =
        MultiHeadAttention(dense(attention / "self" / "query", width_, width_),
                           dense(attention / "self" / "key", width_, width_),
                           dense(attention / "self" / "value", width_, width_),
                           dense(attention / "output" / "dense", width_, width_), options);
    parts.attention_norm = Norm(attention / "output" / "LayerNorm", width_, eps_);
    parts.feed_forward =
        FeedForward(dense(scope / "intermediate" / "dense", width_, inner_),
                    dense(scope / "output" / "dense", inner_, width_), activation_);
    parts.feed_forward_norm = Norm(scope / "output" / "LayerNorm", width_, eps_);
    return Block(std::move(parts));
  }

  void make_head(const Json& config, const Scope& root, const Scope& base) {
    const bool pooled =
        head_ == Head::sequence ||
        (head_ == Head::none && (root.is_fresh() || base.has("pooler.dense.weight")));
    if (pooled) {
      pooler_ = Linear(base / "pooler" / "dense", width_, width_, {.init = init_});
    } else {
      root.ignore({"*pooler.dense.weight", "*pooler.dense.bias"});
    }
    if (head_ == Head::masked) {
      const Scope scope = root / "cls" / "predictions";
      transform_ = Linear(scope / "transform" / "dense", width_, width_, {.init = init_});
      transform_norm_ = Norm(scope / "transform" / "LayerNorm", width_, eps_);
      root.ignore({"cls.seq_relationship.weight", "cls.seq_relationship.bias"});
      const Tensor bias = word_bias(config, scope);
      out_ = word_head(config, scope / "decoder", words_, bias, init_);
    } else if (head_ != Head::none) {
      classifier_dropout_ = rate_or(config, "classifier_dropout", dropout_);
      problem_ = problem_of(config);
      out_ = make_classifier(config, root, width_, label_count(config), init_);
    }
  }

  /// Tied words have one bias by two names. Words of the decoder's own have decoder.bias (where it
  /// is there), and the other goes unused, as in Hugging Face's code.
  Tensor word_bias(const Json& config, const Scope& scope) const {
    const bool own = !config.boolean_or("tie_word_embeddings", true) && scope.has("decoder.bias");
    if (own) {
      scope.alias("bias");
      return (scope / "decoder").parameter("bias", {vocabulary_}, Init::zeros());
    }
    scope.alias("decoder.bias");
    return scope.parameter("bias", {vocabulary_}, Init::zeros());
  }

  TokenRows read(const ModelInput& input, bool skip_padding) const {
    return read_tokens(input, {.token_types = true}, "BERT", vocabulary_, context_, skip_padding);
  }

  /// Hidden rows after the last block.
  Tensor run(const TokenRows& tokens, const ModelInput& input) const {
    const Pass pass = tokens.pass(input.training);
    const Tensor types = input.token_type_ids.defined()
                             ? tokens.pick(input.token_type_ids)
                             : Tensor::zeros({tokens.layout.rows()}, DType::i64);
    Tensor rows = add(observe("hook_embed", words_(tokens.ids)), segments_(types));
    rows = add(rows, observe("hook_pos_embed", positions_(tokens.positions)));
    const RaggedRows ragged(pass.layout.starts);
    rows = dropout(norm_(rows), dropout_, input.training);
    return run_stack(blocks_, {}, rows, pass, recompute_, &tokens);
  }

  Head head_;
  int64_t types_ = 0, inner_ = 0;
  double eps_ = 1e-12, dropout_ = 0.0, classifier_dropout_ = 0.0;
  Problem problem_ = Problem::unnamed;
  Init init_;
  Activation activation_ = Activation::gelu;
  Embedding words_, positions_, segments_;
  Norm norm_, transform_norm_;
  std::vector<Block> blocks_;
  Linear pooler_, transform_, out_;
};

}  // namespace

std::unique_ptr<Model> make_bert(const Json& config, const Scope& scope) {
  return std::make_unique<Bert>(config, scope);
}

}  // namespace heed
