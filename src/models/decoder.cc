#include "models/decoder.h"

#include <algorithm>

#include "base/check.h"
#include "base/language.h"

namespace heed {
namespace {

enum class Head { none, next_token, sequence, tokens };

Head head_of(const Json& config, const Scope& root, const DecoderConfig& decoder) {
  const std::string name = architecture(config);
  check_data(name.find("QuestionAnswering") == std::string::npos, config.file(),
             "architecture '{}' is not supported; use a {} for text generation, sequence or token "
             "classification, or without a head",
             name, config.string("model_type"));
  if (name.find("ForSequenceClassification") != std::string::npos) {
    return Head::sequence;
  }
  if (name.find("ForTokenClassification") != std::string::npos) {
    return Head::tokens;
  }
  if (!name.empty()) {
    const bool bare = name.ends_with("Model") && !name.ends_with("LMHeadModel");
    return bare ? Head::none : Head::next_token;
  }
  if (root.has(decoder.names.token_head + ".bias")) {
    return Head::tokens;
  }
  if (root.has("score.weight")) {
    return Head::sequence;
  }
  const bool head = root.is_fresh() || decoder.tied || root.has(decoder.names.lm_head + ".weight");
  return head ? Head::next_token : Head::none;
}

template <class T>
T of_layer(const std::vector<T>& values, int64_t layer, const T& otherwise) {
  return values.empty()       ? otherwise
         : values.size() == 1 ? values.front()
                              : values[static_cast<size_t>(layer)];
}

class Decoder final : public SizedModel {
 public:
  Decoder(const Json& config, const Scope& root, const DecoderConfig& decoder)
      : c_(decoder), head_kind_(head_of(config, root, decoder)) {
    vocab_size_ = c_.vocab_size;
    context_length_ = c_.context_length;
    hidden_size_ = c_.hidden_size;
    num_layers_ = c_.num_layers;
    num_heads_ = c_.num_heads;
    check_data(c_.num_kv_heads > 0 && c_.num_heads % c_.num_kv_heads == 0, config.file(),
               "num_attention_heads {} is not divisible by num_key_value_heads {}", c_.num_heads,
               c_.num_kv_heads);
    check_size(config, root, parameter_estimate());
    if (!c_.names.base.empty()) {
      root.allow_prefix(c_.names.base + ".");
    }
    for (const std::string& name : c_.ignored) {
      root.ignore({name}, say("a mask or rotary table, which heed computes itself"), true);
    }
    Scope base = head_kind_ == Head::none || c_.names.base.empty() ? root : root / c_.names.base;
    if (!c_.names.stack.empty()) {
      base = base / c_.names.stack;
    }
    make_embeddings(base);
    for (int64_t i = 0; i < num_layers_; ++i) {
      blocks_.push_back(make_block(base / c_.names.layers / i, i));
    }
    if (!c_.names.final_norm.empty()) {
      norm_ = Norm(base / c_.names.final_norm, hidden_size_, c_.norm);
    }
    make_head(config, root);
  }

  ModelKind kind() const override {
    const bool classifies = head_kind_ == Head::sequence || head_kind_ == Head::tokens;
    return classifies ? ModelKind::encoder : ModelKind::decoder;  // a classifier writes no text
  }

  ModelOutput do_forward(const ModelInput& input) const override {
    check_inputs(input, {}, model_type());
    const TokenRows tokens =
        token_rows(input.input_ids, input.attention_mask, vocab_size_, input.skip_padding);
    check_length(tokens.length, context_length_);
    const Tensor rows = run(tokens.ids, tokens.pass(input), &tokens);
    if (head_kind_ == Head::sequence) {
      return sequence_results(last_rows(rows, tokens, input, c_.padding), head_, input, problem_);
    }
    if (head_kind_ == Head::tokens) {
      return token_results(tokens.pass(input).dropout(rows, c_.classifier_dropout), tokens, head_,
                           input, same_position_targets);
    }
    if (head_kind_ == Head::next_token) {
      const bool plain = c_.logits_scale == 1.0 && c_.logits_softcap == 0.0;
      return token_results(
          rows, tokens, head_, input, next_token_targets,
          plain ? std::function<Tensor(const Tensor&)>()
                : [this](const Tensor& logits) { return adjusted(logits); });
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    return output;
  }

  SequenceCache new_cache(int64_t capacity) const override {
    SequenceCache cache;
    for (int64_t i = 0; i < num_layers_; ++i) {
      const int64_t own = of_layer(c_.windows, i, int64_t{0});
      const bool slides =
          kv_window_.on() && (own == 0 || own >= kv_window_.recent + kv_window_.sinks);
      const int64_t room = kv_window_.on() ? capacity : std::min(capacity, context_length_);
      cache.self.emplace_back(c_.num_kv_heads, room, c_.head_dim, c_.head_dim, slides ? 0 : own,
                              kv_type_);
      if (slides) {
        cache.self.back().keep_sinks(kv_window_, of_layer(c_.rotary, i, Rotary()));
      }
    }
    return cache;
  }

  void set_kv_window(const KvWindow& window) override {
    const bool rotates = std::none_of(c_.rotary.begin(), c_.rotary.end(), [](const Rotary& rotary) {
      return rotary.defined() && rotary.depends_on_length();
    });
    if (positions_.defined() || !rotates) {
      Model::set_kv_window(window);
      return;
    }
    check(!window.on() || window.recent + window.sinks <= context_length_, "cache",
          "{} attention sinks and a window of {} positions do not fit into the model's context of "
          "{}",
          window.sinks, window.recent, context_length_);
    kv_window_ = window;
  }
  int64_t decoder_context_length() const override { return kv_window_.on() ? 0 : context_length_; }

  Tensor decode(const Tensor& ids, Pass& pass) const override {
    Tensor rows = run(ids, pass, nullptr);
    advance_caches(pass);
    return rows;
  }

  Tensor do_logits(const Tensor& rows) const override {
    check(head_kind_ == Head::next_token, "generate",
          "this model has no LM head; load one made for text generation");
    return adjusted(head_(rows));
  }

 private:
  double parameter_estimate() const {
    const auto hidden = static_cast<double>(hidden_size_);
    const auto heads = static_cast<double>(2 * (c_.num_heads + c_.num_kv_heads) * c_.head_dim);
    const bool gated = !c_.names.gate.empty() || !c_.names.gate_up.empty();
    const auto mlp = static_cast<double>((gated ? 3 : 2) * c_.intermediate_size);
    return static_cast<double>(c_.tied ? vocab_size_ : 2 * vocab_size_) * hidden +
           static_cast<double>(num_layers_) * hidden * (heads + mlp);
  }

  void make_embeddings(const Scope& base) {
    const DecoderNames& n = c_.names;
    const int64_t size = c_.embedding_size > 0 ? c_.embedding_size : hidden_size_;
    tokens_ = Embedding(base / n.embedding, vocab_size_, size, c_.init,
                        c_.embedding_padding ? c_.padding : std::nullopt);
    if (size != hidden_size_) {
      project_in_ =
          Linear(base / n.project_in, size, hidden_size_, {.bias = false, .init = c_.init});
      project_out_ =
          Linear(base / n.project_out, hidden_size_, size, {.bias = false, .init = c_.init});
    }
    if (!n.positions.empty()) {
      positions_ = Embedding(base / n.positions, context_length_ + c_.position_offset, hidden_size_,
                             c_.init);
    }
    if (!n.embedding_norm.empty()) {
      embedding_norm_ = Norm(base / n.embedding_norm, hidden_size_, c_.norm);
    }
  }

  MultiHeadAttention make_attention(const Scope& scope, int64_t layer) const {
    const DecoderNames& n = c_.names;
    MultiHeadAttention::Options options;
    options.num_heads = num_heads_;
    options.num_kv_heads = c_.num_kv_heads;
    options.head_dim = c_.head_dim;
    options.causal = true;
    options.window = of_layer(c_.windows, layer, int64_t{0});
    options.dropout = c_.attention_dropout;
    options.rotary = of_layer(c_.rotary, layer, Rotary());
    options.alibi = c_.alibi;
    options.scale_alibi = c_.scale_alibi;
    options.scale = c_.attention_scales.empty()
                        ? c_.attention_scale
                        : std::optional(of_layer(c_.attention_scales, layer, 1.0));
    options.softcap = c_.attention_softcap;
    options.qkv_layout = c_.qkv_layout;
    options.norm_per_head = c_.norm_per_head;
    const int64_t queries = num_heads_ * c_.head_dim;
    const int64_t keys = c_.num_kv_heads * c_.head_dim;
    const Linear::Options in = {.bias = c_.qkv_bias, .layout = c_.weight_layout, .init = c_.init};
    const Linear::Options out = {.bias = c_.output_bias,
                                 .layout = c_.weight_layout,
                                 .init = c_.residual_init.value_or(c_.init)};
    if (!n.query_norm.empty()) {
      const int64_t heads = c_.norm_per_head ? 1 : num_heads_;
      const int64_t key_heads = c_.norm_per_head ? 1 : c_.num_kv_heads;
      options.query_norm = Norm(scope / n.query_norm, heads * c_.head_dim, c_.norm);
      options.key_norm = Norm(scope / n.key_norm, key_heads * c_.head_dim, c_.norm);
    }
    if (!n.qkv.empty()) {
      Linear qkv(scope / n.qkv, hidden_size_, queries + 2 * keys, in);
      return MultiHeadAttention(std::move(qkv),
                                Linear(scope / n.output, queries, hidden_size_, out), options);
    }
    Linear q(scope / n.query, hidden_size_, queries, in);
    Linear k(scope / n.key, hidden_size_, keys, in);
    Linear v(scope / n.value, hidden_size_, keys, in);
    return MultiHeadAttention(std::move(q), std::move(k), std::move(v),
                              Linear(scope / n.output, queries, hidden_size_, out), options);
  }

  FeedForward make_mlp(const Scope& scope) const {
    const DecoderNames& n = c_.names;
    const int64_t inner = c_.intermediate_size;
    const Linear::Options in = {.bias = c_.mlp_bias, .layout = c_.weight_layout, .init = c_.init};
    Linear::Options out = in;
    out.init = c_.residual_init.value_or(c_.init);
    if (!n.gate_up.empty()) {
      Linear gate_up(scope / n.gate_up, hidden_size_, 2 * inner, in);
      return FeedForward::fused_gate(
          std::move(gate_up), Linear(scope / n.down, inner, hidden_size_, out), c_.activation);
    }
    if (n.gate.empty()) {
      Linear up(scope / n.up, hidden_size_, inner, in);
      return FeedForward(std::move(up), Linear(scope / n.down, inner, hidden_size_, out),
                         c_.activation);
    }
    Linear gate(scope / n.gate, hidden_size_, inner, in);
    Linear up(scope / n.up, hidden_size_, inner, in);
    return FeedForward(std::move(gate), std::move(up),
                       Linear(scope / n.down, inner, hidden_size_, out), c_.activation);
  }

  Block make_block(const Scope& scope, int64_t layer) const {
    const DecoderNames& n = c_.names;
    const auto norm = [&](const std::string& name) {
      return name.empty() ? Norm() : Norm(scope / name, hidden_size_, c_.norm);
    };
    const auto below = [&](const std::string& name) { return name.empty() ? scope : scope / name; };
    Block::Parts parts;
    parts.attention_norm = norm(n.attention_norm);
    parts.attention = make_attention(below(n.attention), layer);
    parts.attention_post_norm = norm(n.attention_post_norm);
    parts.feed_forward_norm = norm(n.mlp_norm);
    parts.feed_forward = make_mlp(below(n.mlp));
    parts.feed_forward_post_norm = norm(n.mlp_post_norm);
    parts.pre_norm = c_.pre_norm;
    parts.parallel = c_.parallel;
    parts.residual_scale = c_.residual_scale;
    parts.dropout = c_.residual_dropout;
    return Block(std::move(parts));
  }

  void make_head(const Json& config, const Scope& root) {
    if (head_kind_ == Head::sequence || head_kind_ == Head::tokens) {
      const bool sequence = head_kind_ == Head::sequence;
      problem_ = problem_type_of(config);
      const int64_t size = c_.embedding_size > 0 ? c_.embedding_size : hidden_size_;
      head_ = Linear(root / (sequence ? "score" : c_.names.token_head), size, label_count(config),
                     {.bias = !sequence, .init = c_.init});
      return;
    }
    if (head_kind_ == Head::none) {
      return;
    }
    const Scope scope = root / c_.names.lm_head;
    if (c_.tied) {
      scope.alias("weight");
      head_ = Linear(tokens_.weight(), c_.lm_head_bias
                                           ? scope.parameter("bias", {vocab_size_}, Init::zeros())
                                           : Tensor());
    } else {
      const int64_t size = project_out_.defined() ? project_out_.weight().size(0) : hidden_size_;
      head_ = Linear(scope, size, vocab_size_, {.bias = c_.lm_head_bias, .init = c_.init});
    }
  }

  /// Logits as the model gives them: scaled and soft-capped where the configuration says so.
  Tensor adjusted(Tensor logits) const {
    if (c_.logits_scale != 1.0) {
      logits = mul(logits, c_.logits_scale);
    }
    if (c_.logits_softcap > 0.0) {
      logits = mul(tanh(mul(logits, 1.0 / c_.logits_softcap)), c_.logits_softcap);
    }
    return logits;
  }

  /// Hidden rows after the final norm.
  Tensor run(const Tensor& ids, const Pass& pass, const TokenRows* tokens) const {
    Tensor rows = observe("hook_embed", tokens_(ids));
    if (project_in_.defined()) {
      rows = project_in_(rows);
    }
    if (c_.embedding_scale != 1.0) {
      rows = mul(rows, c_.embedding_scale);
    }
    if (positions_.defined()) {
      rows = add(rows, observe("hook_pos_embed", positions_(learned_positions(pass))));
    }
    if (embedding_norm_.defined()) {
      rows = embedding_norm_(rows);
    }
    rows = pass.dropout(rows, c_.embedding_dropout);
    rows = run_stack(blocks_, norm_, rows, pass, gradient_checkpointing_, tokens);
    if (project_out_.defined()) {
      rows = project_out_(rows);
      if (tokens != nullptr) {
        observe_hidden("hidden_states", num_layers_, *tokens, rows);  // in place of the unprojected
      }
    }
    return rows;
  }

  /// Rows of the table of learned positions. Where only real tokens count, padding is at -1.
  Tensor learned_positions(const Pass& pass) const {
    Tensor positions = pass.positions();
    int64_t* position = positions.data<int64_t>();
    const Tensor& real = pass.layout.key_padding;
    if (c_.positions_count_real_tokens && real.defined()) {
      for (int64_t b = 0; b < pass.layout.batch; ++b) {
        int64_t next = 0;
        for (int64_t t = 0; t < pass.layout.length; ++t) {
          const int64_t at = b * pass.layout.length + t;
          position[at] = real.data<uint8_t>()[at] != 0 ? next++ : -1;
        }
      }
    }
    for (int64_t i = 0; i < positions.numel(); ++i) {
      position[i] += c_.position_offset;
    }
    return positions;
  }

  DecoderConfig c_;
  Head head_kind_;
  ProblemType problem_ = ProblemType::unspecified;
  Embedding tokens_, positions_;
  Norm embedding_norm_, norm_;
  std::vector<Block> blocks_;
  Linear project_in_, project_out_, head_;
};

}  // namespace

std::unique_ptr<Model> make_decoder(const Json& config, const Scope& scope,
                                    const DecoderConfig& decoder) {
  return std::make_unique<Decoder>(config, scope, decoder);
}

}  // namespace heed
