#include <cmath>

#include "base/check.h"
#include "base/parallel.h"
#include "heed/nn.h"
#include "heed/runtime.h"
#include "heed/transformer.h"

namespace heed {
namespace {

/// rows [N, heads * width] -> [N, heads, width]
Tensor split_heads(const Tensor& rows, int64_t heads, int64_t width) {
  return reshape(rows, {rows.size(0), heads, width});
}

/// [N, heads, width] of equal sequences -> [B, heads, T, width], a view.
Tensor as_batch(const Tensor& x, const Layout& layout) {
  return transpose(reshape(x, {layout.batch, layout.length, x.size(1), x.size(2)}), 1, 2);
}

/// [T, heads, width] -> [1, heads, T, width], a view.
Tensor heads_first(const Tensor& x) { return unsqueeze(transpose(x, 0, 1), 0); }

/// One sequence of [N, heads, width] -> [1, heads, T, width], a view.
Tensor as_sequence(const Tensor& x, const Layout& layout, int64_t sequence) {
  return heads_first(slice(x, 0, layout.start(sequence), layout.start(sequence + 1)));
}

std::vector<int64_t> starts_of(const Layout& layout) {
  std::vector<int64_t> starts;
  for (int64_t i = 0; i <= layout.batch; ++i) {
    starts.push_back(layout.start(i));
  }
  return starts;
}

std::vector<int64_t> lengths_of(const Layout& layout) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < layout.batch; ++i) {
    lengths.push_back(layout.length_of(i));
  }
  return lengths;
}

/// [B, heads, T, width] -> [B * T, heads * width]
Tensor merge_heads(const Tensor& x) {
  return reshape(transpose(x, 1, 2), {x.size(0) * x.size(2), x.size(1) * x.size(3)});
}

/// Falcon's ALiBi as a bias [B, heads, 1, keys]: slope · j with j, slope and product rounded to
/// bfloat16, scaled like the scores. Keys that `key_padding` (u8 [B, keys], 1 = real) leaves out do
/// not count; B is 1 where it is undefined.
Tensor scaled_alibi_bias(const MultiHeadAttention::Options& options, int64_t keys,
                         const Tensor& key_padding) {
  const auto rounded = [](float value) { return to_float(to_bfloat16(value)); };
  const Tensor slopes = alibi_slopes(options.num_heads);
  const int64_t batch = key_padding.defined() ? key_padding.size(0) : 1;
  Tensor bias = Tensor::empty({batch, options.num_heads, 1, keys});
  float* out = bias.data<float>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < options.num_heads; ++h) {
      const float slope = rounded(slopes.data<float>()[h]);
      int64_t next = 0;
      for (int64_t j = 0; j < keys; ++j) {
        const bool real = !key_padding.defined() || key_padding.data<uint8_t>()[b * keys + j] != 0;
        *out++ = rounded(slope * rounded(static_cast<float>(real ? next++ : 0)));
      }
    }
  }
  return mul(bias, options.scale.value_or(1.0 / std::sqrt(static_cast<double>(options.head_dim))));
}

/// fn(i) for every sequence that decodes, on all threads where nobody watches.
template <class Fn>
void for_each_sequence(int64_t count, const Fn& fn) {
  const auto one = [&fn](int64_t i) {
    const NoGrad no_grad;
    fn(i);
  };
  if (Observer::current() == nullptr && count > 1) {
    parallel_for(count, one);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    one(i);
  }
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Linear q, Linear k, Linear v, Linear out,
                                       const Options& options)
    : q_(std::move(q)),
      k_(std::move(k)),
      v_(std::move(v)),
      out_(std::move(out)),
      options_(options) {
  check(options.num_heads > 0 && options.head_dim > 0, "MultiHeadAttention",
        "num_heads {} and head_dim {} must be at least 1", options.num_heads, options.head_dim);
  if (options_.num_kv_heads == 0) {
    options_.num_kv_heads = options_.num_heads;
  }
}

MultiHeadAttention::MultiHeadAttention(Linear qkv, Linear out, const Options& options)
    : MultiHeadAttention({}, {}, {}, std::move(out), options) {
  qkv_ = std::move(qkv);
}

MultiHeadAttention::MultiHeadAttention(Linear q, Linear kv, Linear out, const Options& options)
    : MultiHeadAttention(std::move(q), {}, {}, std::move(out), options) {
  kv_ = std::move(kv);
}

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const LayerOptions& options) {
  const int64_t size = options.embed_dim;
  check(size > 0 && options.num_heads > 0 && size % options.num_heads == 0, "MultiHeadAttention",
        "embed_dim {} is no multiple of num_heads {}", size, options.num_heads);
  options_.num_heads = options_.num_kv_heads = options.num_heads;
  options_.head_dim = size / options.num_heads;
  options_.causal = options.causal;
  options_.dropout = options.dropout;
  // Xavier's uniform distribution over the three projections together, as PyTorch starts it.
  const Init init = Init::uniform(std::sqrt(6.0 / static_cast<double>(4 * size)));
  const Tensor weight = scope.weight("in_proj_weight", {3 * size, size}, init);
  Tensor bias;
  if (options.bias) {
    bias = scope.parameter("in_proj_bias", {3 * size}, Init::zeros());
  }
  qkv_ = Linear(weight, bias);
  out_ = Linear(scope / "out_proj", size, size, {.bias = options.bias, .bias_init = Init::zeros()});
}

/// One of the three projections; of a joined one its rows.
Linear MultiHeadAttention::projection(Part part) const {
  const Linear& own = part == Part::query ? q_ : part == Part::key ? k_ : v_;
  const bool joined = qkv_.defined() && qkv_.layout() == WeightLayout::out_in &&
                      options_.qkv_layout == QkvLayout::blocks;
  if (own.defined() || !joined) {
    check(own.defined(), "attention", "this layer's projections cannot be told apart");
    return own;
  }
  const int64_t q = options_.num_heads * options_.head_dim;
  const int64_t kv = options_.num_kv_heads * options_.head_dim;
  const int64_t begin = part == Part::query ? 0 : part == Part::key ? q : q + kv;
  const int64_t end = begin + (part == Part::query ? q : kv);
  return qkv_.outputs(begin, end);
}

AttentionOutput MultiHeadAttention::operator()(const Tensor& query, const Tensor& key,
                                               const Tensor& value,
                                               const AttentionCall& call) const {
  check(query.rank() == 3 && key.rank() == 3 && value.rank() == 3, "MultiHeadAttention",
        "query {}, key {} and value {} must be [batch, length, embed_dim]", query.shape(),
        key.shape(), value.shape());
  const HookScope hook_scope("attn");
  const auto heads = [this](const Tensor& x, int64_t count) {
    return transpose(reshape(x, {x.size(0), x.size(1), count, options_.head_dim}), 1, 2);
  };
  const Tensor q = observe("hook_q", heads(projection(Part::query)(query), options_.num_heads));
  const Tensor k = observe("hook_k", heads(projection(Part::key)(key), options_.num_kv_heads));
  const Tensor v = observe("hook_v", heads(projection(Part::value)(value), options_.num_kv_heads));
  Pass pass;
  pass.training = call.training;
  AttentionOptions options = attention_options(query.size(1), key.size(1), pass);
  options.mask = call.mask.defined() && call.mask.rank() == 3 ? unsqueeze(call.mask, 1) : call.mask;
  options.key_padding = call.key_padding;
  AttentionOutput result;
  const Tensor z = attention(q, k, v, options);
  result.output =
      out_(observe("hook_z", reshape(transpose(z, 1, 2), {query.size(0), query.size(1), -1})));
  if (call.need_weights) {
    result.weights = attention_steps(q.detach(), k.detach(), v.detach(), options).weights;
  }
  return result;
}

/// Keys and values [N, heads, width] of the encoder's rows.
std::pair<Tensor, Tensor> MultiHeadAttention::memory_keys_values(const Tensor& memory) const {
  const int64_t width = options_.num_kv_heads * options_.head_dim;
  Tensor k;
  Tensor v;
  if (kv_.defined()) {
    const std::vector<Tensor> parts = split(kv_(memory), {width, width}, 1);
    k = parts[0];
    v = parts[1];
  } else {
    k = projection(Part::key)(memory);
    v = projection(Part::value)(memory);
  }
  return {observe("hook_k", split_heads(k, options_.num_kv_heads, options_.head_dim)),
          observe("hook_v", split_heads(v, options_.num_kv_heads, options_.head_dim))};
}

AttentionOptions MultiHeadAttention::attention_options(int64_t queries, int64_t keys,
                                                       const Pass& pass) const {
  AttentionOptions options;
  if (options_.causal && options_.window > 0) {
    options.position = Window{options_.window - 1, 0, keys - queries};
  } else if (options_.causal) {
    options.position = Causal{keys - queries};
  } else if (options_.window > 0) {
    options.position = Window{options_.window, options_.window, keys - queries};
  }
  options.scale = options_.scale;
  options.softcap = options_.softcap;
  if (options_.alibi && queries > 0) {
    options.bias = options_.scale_alibi
                       ? scaled_alibi_bias(options_, keys, {})
                       : alibi_bias(options_.num_heads, queries, keys, keys - queries);
  }
  options.dropout = options_.dropout;
  options.training = pass.training;
  options.first_example = pass.first_example;
  return options;
}

Tensor MultiHeadAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Layout& keys, const Tensor& bias, const Pass& pass) const {
  const Layout& queries = pass.layout;
  if (!queries.is_ragged() && !keys.is_ragged()) {
    AttentionOptions options = attention_options(queries.length, keys.length, pass);
    options.key_padding = keys.key_padding;
    if (options_.scale_alibi && keys.key_padding.defined()) {
      options.bias = scaled_alibi_bias(options_, keys.length, keys.key_padding);
    }
    if (bias.defined()) {
      options.bias = bias;
    }
    return merge_heads(
        attention(as_batch(q, queries), as_batch(k, keys), as_batch(v, keys), options));
  }
  if (!bias.defined() && !options_.alibi && Observer::current() == nullptr) {
    const Tensor z = ragged_attention(q, k, v, starts_of(queries), starts_of(keys),
                                      attention_options(0, 0, pass));
    return reshape(z, {z.size(0), z.size(1) * z.size(2)});
  }
  const std::vector<Tensor> qs = split(q, lengths_of(queries), 0);
  const std::vector<Tensor> ks = split(k, lengths_of(keys), 0);
  const std::vector<Tensor> vs = split(v, lengths_of(keys), 0);
  std::vector<Tensor> parts;
  const RandomState random = random_state();
  for (int64_t i = 0; i < queries.batch; ++i) {
    // The layer takes one random stream, as a batch of equal lengths does; examples differ in it.
    set_random_state(random);
    AttentionOptions options = attention_options(queries.length_of(i), keys.length_of(i), pass);
    options.first_example += i;
    if (bias.defined()) {
      options.bias = slice(slice(bias, 2, 0, queries.length_of(i)), 3, 0, keys.length_of(i));
    }
    const auto at = static_cast<size_t>(i);
    parts.push_back(merge_heads(
        attention(heads_first(qs[at]), heads_first(ks[at]), heads_first(vs[at]), options)));
  }
  return concat(parts, 0);
}

Tensor MultiHeadAttention::attend_cached(const Tensor& q, const Pass& pass, int64_t layer,
                                         bool cross) const {
  const Layout& layout = pass.layout;
  std::vector<Tensor> parts(static_cast<size_t>(layout.batch));
  for_each_sequence(layout.batch, [&](int64_t i) {
    SequenceCache& caches = *pass.caches[static_cast<size_t>(i)];
    const KvCache& cache = (cross ? caches.cross : caches.self)[static_cast<size_t>(layer)];
    const int64_t keys = cache.length() - cache.first();
    AttentionOptions options = attention_options(layout.length_of(i), keys, pass);
    if (!cross && !pass.cached_bias.empty()) {
      options.bias = pass.cached_bias[static_cast<size_t>(i)];
    }
    parts[static_cast<size_t>(i)] =
        merge_heads(attention(as_sequence(q, layout, i), cache.keys(), cache.values(), options));
  });
  return layout.batch == 1 ? parts.front() : concat(parts, 0);
}

/// Queries, keys and values [N, heads, head_dim] of rows, before norms and rotation.
std::array<Tensor, 3> MultiHeadAttention::project(const Tensor& rows) const {
  const Options& o = options_;
  if (!qkv_.defined()) {
    return {split_heads(q_(rows), o.num_heads, o.head_dim),
            split_heads(k_(rows), o.num_kv_heads, o.head_dim),
            split_heads(v_(rows), o.num_kv_heads, o.head_dim)};
  }
  const Tensor all = qkv_(rows);
  if (o.qkv_layout == QkvLayout::per_group) {
    const int64_t shared = o.num_heads / o.num_kv_heads;
    const Tensor groups = reshape(all, {all.size(0), o.num_kv_heads, shared + 2, o.head_dim});
    const std::vector<Tensor> parts = split(groups, {shared, 1, 1}, 2);
    return {reshape(parts[0], {all.size(0), o.num_heads, o.head_dim}), squeeze(parts[1], 2),
            squeeze(parts[2], 2)};
  }
  const int64_t queries = o.num_heads * o.head_dim;
  const int64_t keys = o.num_kv_heads * o.head_dim;
  const std::vector<Tensor> parts = split(all, {queries, keys, keys}, 1);
  return {split_heads(parts[0], o.num_heads, o.head_dim),
          split_heads(parts[1], o.num_kv_heads, o.head_dim),
          split_heads(parts[2], o.num_kv_heads, o.head_dim)};
}

namespace {

/// A norm of [N, heads, head_dim]: of each head, or of the whole row.
Tensor normed_heads(const Norm& norm, bool per_head, const Tensor& x) {
  if (!norm.defined()) {
    return x;
  }
  const Tensor dense = contiguous(x);
  return per_head ? norm(dense)
                  : reshape(norm(reshape(dense, {x.size(0), x.size(1) * x.size(2)})), x.shape());
}

}  // namespace

Tensor MultiHeadAttention::operator()(const Tensor& rows, const Pass& pass, int64_t layer,
                                      const Tensor& residual) const {
  const HookScope hook_scope("attn");
  const Options& o = options_;
  auto [q, k, v] = project(rows);
  if (o.query_norm.defined() || o.key_norm.defined()) {
    q = normed_heads(o.query_norm, o.norm_per_head, observe("hook_q_proj", q));
    k = normed_heads(o.key_norm, o.norm_per_head, observe("hook_k_proj", k));
  }
  if (o.rotary.defined()) {
    q = observe("hook_q_unrotated", q);
    k = observe("hook_k_unrotated", k);
    const Tensor positions = pass.positions();
    q = o.rotary(q, positions, pass.layout);
    k = o.rotary(k, positions, pass.layout);
  }
  q = observe("hook_q", q);
  k = observe("hook_k", k);
  v = observe("hook_v", v);
  Tensor z;
  if (pass.caches.empty()) {
    z = attend(q, k, v, pass.layout, pass.bias, pass);
  } else {
    for_each_sequence(pass.layout.batch, [&, &k = k, &v = v](int64_t i) {
      pass.caches[static_cast<size_t>(i)]->self[static_cast<size_t>(layer)].append(
          as_sequence(k, pass.layout, i), as_sequence(v, pass.layout, i));
    });
    z = attend_cached(q, pass, layer, false);
  }
  z = observe("hook_z", z);
  return out_(z, Activation::none, residual);
}

Tensor MultiHeadAttention::cross(const Tensor& rows, const Pass& pass, int64_t layer,
                                 const Tensor& residual) const {
  const HookScope hook_scope("cross_attn");
  const Options& o = options_;
  check(pass.encoder_hidden_states != nullptr || !pass.caches.empty(), "attention",
        "cross-attention needs the encoder's result");
  const Tensor q =
      observe("hook_q", split_heads(projection(Part::query)(rows), o.num_heads, o.head_dim));
  bool cached = !pass.caches.empty();
  if (cached) {
    for (SequenceCache* cache : pass.caches) {
      cached = cached && cache->cross[static_cast<size_t>(layer)].length() > 0;
    }
  }
  Tensor z;
  if (cached) {
    z = attend_cached(q, pass, layer, true);
  } else {
    check(pass.encoder_hidden_states != nullptr && pass.encoder_layout->batch == pass.layout.batch,
          "attention", "the first pass of a sequence needs the encoder's result");
    const auto [k, v] = memory_keys_values(*pass.encoder_hidden_states);
    for (size_t i = 0; i < pass.caches.size(); ++i) {
      const auto sequence = static_cast<int64_t>(i);
      KvCache& cache = pass.caches[i]->cross[static_cast<size_t>(layer)];
      cache =
          KvCache(o.num_kv_heads, pass.encoder_layout->length_of(sequence), o.head_dim, o.head_dim);
      cache.append(as_sequence(k, *pass.encoder_layout, sequence),
                   as_sequence(v, *pass.encoder_layout, sequence));
    }
    z = pass.caches.empty() ? attend(q, k, v, *pass.encoder_layout, {}, pass)
                            : attend_cached(q, pass, layer, true);
  }
  z = observe("hook_z", z);
  return out_(z, Activation::none, residual);
}

}  // namespace heed
