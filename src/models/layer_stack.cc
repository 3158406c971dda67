#include "models/layer_stack.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/check.h"

namespace heed {

Init glorot(int64_t in, int64_t out) {
  return Init::uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
}

StackSizes stack_sizes(const Json& config, const std::string& side) {
  StackSizes sizes;
  sizes.width = size_of(config, "d_model");
  sizes.layers = layer_count(config, side + "_layers");
  sizes.heads = size_of(config, side + "_attention_heads");
  sizes.intermediate_size = size_of(config, side + "_ffn_dim");
  head_dim(config, "d_model", sizes.width, side + "_attention_heads", sizes.heads);
  sizes.activation = activation_of(config, "activation_function", "relu");
  sizes.eps = positive_or(config, "layer_norm_eps", 1e-5);
  sizes.dropout = rate_or(config, "dropout", 0.1);
  sizes.attention_dropout = rate_or(config, "attention_dropout", 0.0);
  sizes.activation_dropout = rate_or(config, "activation_dropout", 0.0);
  return sizes;
}

double stack_parameters(const StackSizes& sizes, bool cross) {
  const auto width = static_cast<double>(sizes.width);
  return static_cast<double>(sizes.layers) * width *
         ((cross ? 8.0 : 4.0) * width + 2.0 * static_cast<double>(sizes.intermediate_size));
}

namespace {

Linear dense(const Scope& scope, const StackSizes& sizes, int64_t in, int64_t out) {
  return Linear(scope, in, out, {.init = sizes.init.value_or(glorot(in, out))});
}

MultiHeadAttention make_attention(const Scope& scope, const StackSizes& sizes, bool causal) {
  MultiHeadAttention::Options options;
  options.num_heads = sizes.heads;
  options.head_dim = sizes.head_dim();
  options.causal = causal;
  options.dropout = sizes.attention_dropout;
  auto project = [&](const char* name, bool bias) {
    return Linear(scope / name, sizes.width, sizes.width,
                  {.bias = bias && sizes.attention_bias,
                   .init = sizes.init.value_or(glorot(sizes.width, sizes.width))});
  };
  Linear query = project("q_proj", true);
  Linear key = project("k_proj", sizes.key_bias);
  Linear value = project("v_proj", true);
  return MultiHeadAttention(std::move(query), std::move(key), std::move(value),
                            project("out_proj", true), options);
}

}  // namespace

std::vector<Block> stack_blocks(const Scope& scope, const StackSizes& sizes, bool causal,
                                bool cross) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const Scope layer = scope / "layers" / i;
    Block::Parts parts;
    parts.pre_norm = sizes.pre_norm;
    parts.dropout = sizes.dropout;
    if (sizes.make_mixer) {
      parts.mixer = sizes.make_mixer(layer / "self_attn", i);
    } else {
      parts.attention = make_attention(layer / "self_attn", sizes, causal);
    }
    parts.attention_norm = Norm(layer / "self_attn_layer_norm", sizes.width, sizes.eps);
    parts.has_cross = cross;
    if (cross) {
      parts.cross = make_attention(layer / "encoder_attn", sizes, false);
      parts.cross_norm = Norm(layer / "encoder_attn_layer_norm", sizes.width, sizes.eps);
    }
    parts.feed_forward =
        FeedForward(dense(layer / "fc1", sizes, sizes.width, sizes.intermediate_size),
                    dense(layer / "fc2", sizes, sizes.intermediate_size, sizes.width),
                    sizes.activation, sizes.activation_dropout);
    parts.feed_forward_norm = Norm(layer / "final_layer_norm", sizes.width, sizes.eps);
    blocks.emplace_back(std::move(parts));
  }
  return blocks;
}

/// The table of sinusoids, which grows as positions are reached.
struct TokenStack::Sinusoids {
  std::mutex mutex;
  Tensor table;

  Tensor reaching(int64_t last, const Options& options) {
    const std::lock_guard lock(mutex);
    constexpr int64_t kFewest = 64;
    const int64_t most = options.context + options.position_offset;
    int64_t count = table.defined() ? table.size(0) : std::min(kFewest, most);
    while (count <= last && count < most) {
      count = std::min(2 * count, most);
    }
    if (!table.defined() || count > table.size(0)) {
      table = sinusoidal_positions(count, options.sizes.width, options.sinusoids);
      if (options.uncounted_token && *options.uncounted_token < count) {
        slice(table, 0, *options.uncounted_token, *options.uncounted_token + 1).fill(0.0);
      }
    }
    return table;
  }
};

TokenStack::TokenStack(const Scope& scope, Embedding tokens, const Options& options)
    : options_(options),
      tokens_(std::move(tokens)),
      blocks_(stack_blocks(scope, options.sizes, options.causal, options.cross)) {
  const Scope positions = scope / "embed_positions";
  const Shape shape{options.position_offset + options.context, options.sizes.width};
  if (options.learned_positions) {
    table_ = positions.parameter("weight", shape, options.sizes.init.value_or(Init::normal(0.02)));
  } else if (options.stored_sinusoids && positions.has("weight")) {
    table_ = positions.buffer("weight", shape, Init::zeros());
  } else {
    sinusoids_ = std::make_shared<Sinusoids>();
  }
  if (options.embedding_norm) {
    embedding_norm_ = Norm(scope / "layernorm_embedding", options.sizes.width, options.sizes.eps);
  }
  if (options.final_norm) {
    norm_ = Norm(scope / "layer_norm", options.sizes.width, options.sizes.eps);
  }
}

namespace {

/// Rows of the table for tokens that are counted without `uncounted`: those before a token in its
/// sequence, or in its chunk behind the cache. `uncounted` itself has the row of that number.
Tensor counted_positions(const Tensor& positions, const Tensor& ids, const Pass& pass,
                         int64_t uncounted) {
  const int64_t* id = ids.data<int64_t>();
  Tensor result = Tensor::empty(positions.shape(), DType::i64);
  for (int64_t b = 0; b < pass.layout.batch; ++b) {
    const int64_t start = pass.layout.start(b);
    int64_t next =
        pass.caches.empty() || pass.layout.length_of(b) == 0 ? 0 : positions.data<int64_t>()[start];
    for (int64_t row = start; row < pass.layout.start(b + 1); ++row) {
      result.data<int64_t>()[row] = uncounted + (id[row] == uncounted ? 0 : ++next);
    }
  }
  return result;
}

}  // namespace

Tensor TokenStack::position_rows(const Tensor& positions, const Tensor& ids,
                                 const Pass& pass) const {
  const std::vector<int64_t> reached = positions.to_vector<int64_t>();
  const int64_t last = reached.empty() ? 0 : *std::max_element(reached.begin(), reached.end());
  check_length(last + 1, options_.context);
  Tensor rows = positions;
  if (options_.uncounted_token) {
    rows = counted_positions(positions, ids, pass, *options_.uncounted_token);
  } else if (options_.position_offset != 0) {
    std::vector<int64_t> moved = reached;
    for (int64_t& each : moved) {
      each += options_.position_offset;
    }
    rows = Tensor::from(moved, positions.shape());
  }
  return embedding(
      table_.defined() ? table_ : sinusoids_->reaching(last + options_.position_offset, options_),
      rows);
}

Tensor TokenStack::operator()(const Tensor& ids, const Tensor& positions, const Pass& pass,
                              bool recompute, const TokenRows* tokens) const {
  return run_embedded(observe("hook_embed", tokens_(ids)), position_rows(positions, ids, pass),
                      pass, recompute, tokens);
}

Tensor TokenStack::run(const Tensor& embedded, const Tensor& positions, const Pass& pass,
                       bool recompute, const TokenRows* tokens) const {
  check(!options_.uncounted_token, "forward", "positions need the tokens they count");
  return run_embedded(embedded, position_rows(positions, {}, pass), pass, recompute, tokens);
}

Tensor TokenStack::run_embedded(const Tensor& embedded, const Tensor& position_rows,
                                const Pass& pass, bool recompute, const TokenRows* tokens) const {
  Tensor rows = options_.scale == 1.0 ? embedded : mul(embedded, options_.scale);
  rows = add(rows, observe("hook_pos_embed", position_rows));
  if (embedding_norm_.defined()) {
    rows = embedding_norm_(rows);
  }
  rows = pass.dropout(rows, options_.sizes.dropout);
  return run_stack(blocks_, norm_, rows, pass, recompute, tokens, options_.hidden_name);
}

StackSizes simple_sizes(const Json& config) {
  StackSizes sizes = stack_sizes(config, "encoder");
  sizes.attention_bias = config.boolean_or("attention_bias", true);
  sizes.pre_norm = config.boolean_or("pre_norm", false);
  return sizes;
}

TokenStack simple_encoder(const Json& config, const Scope& scope, const StackSizes& sizes,
                          bool causal) {
  TokenStack::Options options;
  options.sizes = sizes;
  options.final_norm = config.boolean_or("final_norm", false);
  options.context = size_of(config, "max_position_embeddings");
  options.learned_positions = true;
  options.causal = causal;
  const int64_t vocabulary = size_of(config, "vocab_size");
  const int64_t width = options.sizes.width;
  check_size(config, scope,
             static_cast<double>(vocabulary + options.context) * static_cast<double>(width) +
                 stack_parameters(options.sizes, false));
  return TokenStack(scope, Embedding(scope / "embed_tokens", vocabulary, width, Init::normal(0.02)),
                    options);
}

Linear tutorial_head(const Scope& scope, const Embedding& words, bool tied) {
  const int64_t vocabulary = words.weight().size(0);
  const int64_t width = words.weight().size(1);
  if (!tied) {
    return Linear(scope, width, vocabulary, {.init = glorot(width, vocabulary)});
  }
  scope.alias("weight");
  return Linear(words.weight(), scope.parameter("bias", {vocabulary}, Init::zeros()));
}

SimpleEncoderModel::SimpleEncoderModel(const Json& config, const Scope& scope, const char* name,
                                       const InputUse& use, bool causal, const StackSizes& sizes)
    : sizes_(sizes), stack_(simple_encoder(config, scope, sizes, causal)), name_(name), use_(use) {
  vocab_size_ = size_of(config, "vocab_size");
  context_length_ = size_of(config, "max_position_embeddings");
  hidden_size_ = sizes_.width;
  num_layers_ = sizes_.layers;
  num_heads_ = sizes_.heads;
}

TokenRows SimpleEncoderModel::read(const ModelInput& input, bool skip_padding) const {
  return read_tokens(input, use_, name_, vocab_size_, context_length_, skip_padding);
}

Tensor SimpleEncoderModel::run(const TokenRows& tokens, const ModelInput& input) const {
  return stack_(tokens.ids, tokens.positions, tokens.pass(input), gradient_checkpointing_, &tokens);
}

EncoderOutput SimpleEncoderModel::encode(const ModelInput& input) const {
  const TokenRows tokens = read(input, true);
  return {run(tokens, input), tokens.layout};
}

TokenRows feature_places(const Tensor& features, const Tensor& mask, int64_t size,
                         bool skip_padding, const char* name) {
  check(features.defined(), "forward", "{} is missing", name);
  check(features.rank() == 3 && is_floating(features.dtype()) && features.size(2) == size,
        "forward", "{} must be floating [batch, length, {}], not {} {}", name, size,
        name_of(features.dtype()), features.shape());
  const Tensor ids = Tensor::zeros({features.size(0), features.size(1)}, DType::i64);
  return token_rows(ids, mask, 1, skip_padding, name);
}

Tensor feature_rows(const Tensor& features, const TokenRows& places) {
  const Tensor rows =
      reshape(cast(features, DType::f32), {places.batch * places.length, features.size(2)});
  return places.places.defined() ? index_rows(rows, places.places) : rows;
}

}  // namespace heed
