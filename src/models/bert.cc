#include "base/check.h"
#include "models/common.h"
#include "models/fresh_config.h"
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
    hidden_size_ = size_of(config, "hidden_size");
    num_layers_ = layer_count(config, "num_hidden_layers");
    num_heads_ = size_of(config, "num_attention_heads");
    context_length_ = size_of(config, "max_position_embeddings");
    vocab_size_ = size_of(config, "vocab_size");
    types_ = size_or(config, "type_vocab_size", 2);
    intermediate_size_ = size_of(config, "intermediate_size");
    check_size(config, root,
               static_cast<double>(vocab_size_ + context_length_ + types_) *
                       static_cast<double>(hidden_size_) +
                   static_cast<double>(num_layers_) * static_cast<double>(hidden_size_) *
                       static_cast<double>(4 * hidden_size_ + 2 * intermediate_size_));
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
    for (int64_t i = 0; i < num_layers_; ++i) {
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
      return sequence_results(tokens.pass(input).dropout(pooled, classifier_dropout_), out_, input,
                              problem_);
    }
    const Tensor read = head_ == Head::masked
                            ? transform_norm_(transform_(rows, activation_))
                            : tokens.pass(input).dropout(rows, classifier_dropout_);
    return token_results(read, tokens, out_, input, same_position_targets);
  }

  EncoderOutput encode(const ModelInput& input) const override {
    const TokenRows tokens = read(input, true);
    return {run(tokens, input), tokens.layout};
  }

 private:
  void make_embeddings(const Json& config, const Scope& scope) {
    const auto padding = padding_token(config, 0, vocab_size_);
    words_ = Embedding(scope / "word_embeddings", vocab_size_, hidden_size_, init_, padding);
    positions_ = Embedding(scope / "position_embeddings", context_length_, hidden_size_, init_);
    segments_ = Embedding(scope / "token_type_embeddings", types_, hidden_size_, init_);
    norm_ = Norm(scope / "LayerNorm", hidden_size_, eps_);
  }

  Block make_block(const Json& config, const Scope& scope) const {
    MultiHeadAttention::Options options;
    options.num_heads = num_heads_;
    options.head_dim =
        head_dim(config, "hidden_size", hidden_size_, "num_attention_heads", num_heads_);
    options.dropout = rate_or(config, "attention_probs_dropout_prob", 0.1);
    auto dense = [&](const Scope& at, int64_t in, int64_t out) {
      return Linear(at, in, out, {.init = init_});
    };
    const Scope attention = scope / "attention";
    Block::Parts parts;
    parts.pre_norm = false;
    parts.dropout = dropout_;
    parts.attention = MultiHeadAttention(
        dense(attention / "self" / "query", hidden_size_, hidden_size_),
        dense(attention / "self" / "key", hidden_size_, hidden_size_),
        dense(attention / "self" / "value", hidden_size_, hidden_size_),
        dense(attention / "output" / "dense", hidden_size_, hidden_size_), options);
    parts.attention_norm = Norm(attention / "output" / "LayerNorm", hidden_size_, eps_);
    parts.feed_forward = FeedForward(
        dense(scope / "intermediate" / "dense", hidden_size_, intermediate_size_),
        dense(scope / "output" / "dense", intermediate_size_, hidden_size_), activation_);
    parts.feed_forward_norm = Norm(scope / "output" / "LayerNorm", hidden_size_, eps_);
    return Block(std::move(parts));
  }

  void make_head(const Json& config, const Scope& root, const Scope& base) {
    const bool pooled =
        head_ == Head::sequence ||
        (head_ == Head::none && (root.is_fresh() || base.has("pooler.dense.weight")));
    if (pooled) {
      pooler_ = Linear(base / "pooler" / "dense", hidden_size_, hidden_size_, {.init = init_});
    } else {
      root.ignore({"*pooler.dense.weight", "*pooler.dense.bias"});
    }
    if (head_ == Head::masked) {
      const Scope scope = root / "cls" / "predictions";
      transform_ =
          Linear(scope / "transform" / "dense", hidden_size_, hidden_size_, {.init = init_});
      transform_norm_ = Norm(scope / "transform" / "LayerNorm", hidden_size_, eps_);
      root.ignore({"cls.seq_relationship.weight", "cls.seq_relationship.bias"});
      const Tensor bias = word_bias(config, scope);
      out_ = lm_head(config, scope / "decoder", words_, bias, init_);
    } else if (head_ != Head::none) {
      classifier_dropout_ = rate_or(config, "classifier_dropout", dropout_);
      problem_ = problem_type_of(config);
      out_ = make_classifier(config, root, hidden_size_, label_count(config), init_);
    }
  }

  /// Tied words have one bias by two names. Words of the decoder's own have decoder.bias (where it
  /// is there), and the other goes unused, as in Hugging Face's code.
  Tensor word_bias(const Json& config, const Scope& scope) const {
    const bool own = !config.boolean_or("tie_word_embeddings", true) && scope.has("decoder.bias");
    if (own) {
      scope.alias("bias");
      return (scope / "decoder").parameter("bias", {vocab_size_}, Init::zeros());
    }
    scope.alias("decoder.bias");
    return scope.parameter("bias", {vocab_size_}, Init::zeros());
  }

  TokenRows read(const ModelInput& input, bool skip_padding) const {
    return read_tokens(input, {.token_types = true}, "BERT", vocab_size_, context_length_,
                       skip_padding);
  }

  /// Hidden rows after the last block.
  Tensor run(const TokenRows& tokens, const ModelInput& input) const {
    const Pass pass = tokens.pass(input);
    const Tensor types = input.token_type_ids.defined()
                             ? tokens.pick(input.token_type_ids)
                             : Tensor::zeros({tokens.layout.rows()}, DType::i64);
    Tensor rows = add(observe("hook_embed", words_(tokens.ids)), segments_(types));
    rows = add(rows, observe("hook_pos_embed", positions_(tokens.positions)));
    rows = pass.dropout(norm_(rows), dropout_);
    return run_stack(blocks_, {}, rows, pass, gradient_checkpointing_, &tokens);
  }

  Head head_;
  int64_t types_ = 0, intermediate_size_ = 0;
  double eps_ = 1e-12, dropout_ = 0.0, classifier_dropout_ = 0.0;
  ProblemType problem_ = ProblemType::unspecified;
  Init init_;
  Activation activation_ = Activation::gelu;
  Embedding words_, positions_, segments_;
  Norm norm_, transform_norm_;
  std::vector<Block> blocks_;
  Linear pooler_, transform_, out_;
};

}  // namespace

namespace {

GgufSpec bert_gguf() {
  using Kind = GgufKey::Kind;
  GgufSpec gguf;
  gguf.architecture = "bert";
  gguf.prefix = "bert.";
  gguf.layers = "encoder.layer.";
  gguf.kept = "cls.predictions.";
  gguf.keys = {{"embedding_length", "hidden_size"},
               {"block_count", "num_hidden_layers"},
               {"attention.head_count", "num_attention_heads"},
               {"feed_forward_length", "intermediate_size"},
               {"context_length", "max_position_embeddings"},
               {"attention.layer_norm_epsilon", "layer_norm_eps", Kind::number, 1e-12}};
  gguf.tensors = {{"token_embd", "embeddings.word_embeddings"},
                  {"position_embd", "embeddings.position_embeddings"},
                  {"token_types", "embeddings.token_type_embeddings"},
                  {"token_embd_norm", "embeddings.LayerNorm"},
                  {"cls", "pooler.dense"},
                  {"cls.output", "classifier"}};
  gguf.layer_tensors = {{"attn_q", "attention.self.query"},
                        {"attn_k", "attention.self.key"},
                        {"attn_v", "attention.self.value"},
                        {"attn_output", "attention.output.dense"},
                        {"attn_output_norm", "attention.output.LayerNorm"},
                        {"ffn_up", "intermediate.dense"},
                        {"ffn_down", "output.dense"},
                        {"layer_output_norm", "output.LayerNorm"}};
  gguf.read_config = [](const GgufMetadata& file, JsonBuilder& config) {
    config.set("type_vocab_size", file.rows("token_types.weight"));
    config.set_default("hidden_act", "gelu");
  };
  gguf.write_config = [](GgufOutput& file, const Json& config, const Model&) {
    file.flag("attention.causal", false);
    file.size("pooling_type", 1);
    // The number of segments: a size of the model that GGUF keeps among the tokenizer's keys.
    file.size("tokenizer.ggml.token_type_count", size_or(config, "type_vocab_size", 2));
  };
  return gguf;
}

}  // namespace

ModelSpec bert_spec() {
  ModelSpec spec;
  spec.model_type = "bert";
  spec.kind = ModelKind::encoder;
  spec.heads = {{"BertForMaskedLM", "fill-mask", "cls.predictions."},
                {"BertForSequenceClassification", "text-classification", "classifier.", "pooler."},
                {"BertForTokenClassification", "token-classification", "classifier."},
                {"BertModel", "", ""}};
  spec.ties = {.prefix = "bert.",
               .embedding = "embeddings.word_embeddings.weight",
               .lm_head = "cls.predictions.decoder.weight"};
  spec.gguf = bert_gguf();
  spec.train_tasks = {"mlm", "classify", "embed"};
  spec.fresh_tokenizer = "wordpiece:8192";
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("bert", "Bert", sizes);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Bert>(config, scope);
  };
  return spec;
}

}  // namespace heed
