#include "models/sparse_mixers.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "heed/transformer.h"
#include "nn/bigbird.h"
#include "nn/heads.h"
#include "nn/longformer.h"

namespace heed {
namespace {

/// Projections of one layer.
struct Projections {
  Linear query, key, value, output;
  int64_t heads = 1;
  double dropout = 0.0;

  Projections(const Scope& scope, const EncoderConfig& c, bool bias = true)
      : heads(c.num_heads), dropout(c.attention_dropout) {
    const auto dense = [&](const std::string& name, bool with_bias) {
      return Linear(scope / name, c.hidden_size, c.hidden_size,
                    {.bias = with_bias, .init = c.init});
    };
    query = dense(c.names.query, bias);
    key = dense(c.names.key, bias);
    value = dense(c.names.value, bias);
    output = dense(c.names.output, c.output_bias.value_or(true));
  }

  Tensor q(const Tensor& x) const { return observe("hook_q", split_heads(query(x), heads)); }
  Tensor k(const Tensor& x) const { return observe("hook_k", split_heads(key(x), heads)); }
  Tensor v(const Tensor& x) const { return observe("hook_v", split_heads(value(x), heads)); }
  Tensor out(const Tensor& z) const { return output(observe("hook_z", join_heads(z))); }

  AttentionOptions options(const Tensor& key_padding, const Pass& pass) const {
    AttentionOptions options;
    options.key_padding = key_padding;
    options.dropout = dropout;
    options.training = pass.training;
    options.first_example = pass.first_example;
    return options;
  }
};

Tensor with_zero_rows(const Tensor& x, int64_t before, int64_t after) {
  const auto zeros = [&](int64_t rows) {
    Shape shape = x.shape();
    shape[2] = rows;
    return Tensor::zeros(shape, x.dtype());
  };
  std::vector<Tensor> parts;
  if (before > 0) {
    parts.push_back(zeros(before));
  }
  parts.push_back(x);
  if (after > 0) {
    parts.push_back(zeros(after));
  }
  return parts.size() == 1 ? x : concat(parts, 2);
}

/// A depthwise convolution over positions: v [B, H, T, D], weight [H, kernel]. Blocks of positions
/// are multiplied by a band of the weights, so that the work grows with T.
Tensor convolve_positions(const Tensor& v, const Tensor& weight) {
  const int64_t heads = v.size(1);
  const int64_t length = v.size(2);
  const int64_t kernel = weight.size(1);
  const int64_t block = std::max<int64_t>(kernel, 16);
  const int64_t width = block + kernel - 1;
  const int64_t blocks = (length + block - 1) / block;
  std::vector<int64_t> index;  // into a row of weights with a zero behind
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < block; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        index.push_back(j >= i && j - i < kernel ? j - i : kernel);
      }
    }
  }
  const Tensor padded_weight = concat({weight, Tensor::zeros({heads, 1}, weight.dtype())}, 1);
  const Tensor band = reshape(gather(padded_weight, 1, Tensor::from(index, {heads, block * width})),
                              {heads, block, width});
  const Tensor padded =
      with_zero_rows(v, kernel / 2, blocks * block - length + (kernel - 1) - kernel / 2);
  std::vector<Tensor> parts;
  for (int64_t b = 0; b < blocks; ++b) {
    parts.push_back(
        matmul(unsqueeze(band, 0), contiguous(slice(padded, 2, b * block, b * block + width))));
  }
  const Tensor all = parts.size() == 1 ? parts.front() : concat(parts, 2);
  return slice(all, 2, 0, length);
}

/// The Moore-Penrose inverse of matrices [..., n, n] by six steps of Razavi's iteration.
Tensor iterative_inverse(const Tensor& matrix) {
  constexpr int kSteps = 6;
  const int64_t size = matrix.size(-1);
  Tensor identity = Tensor::zeros({size, size}, matrix.dtype());
  for (int64_t i = 0; i < size; ++i) {
    identity.data<float>()[i * size + i] = 1.0F;
  }
  // One factor for the whole batch, as in the reference.
  const Tensor sums = sum(matrix, -2);
  const Tensor most = max(reshape(sums, {sums.numel()}), 0);
  Tensor value = div(transpose(matrix), most);
  for (int i = 0; i < kSteps; ++i) {
    const Tensor product = matmul(matrix, value);
    const Tensor inner = sub(mul(identity, 7.0), product);
    const Tensor middle = sub(mul(identity, 15.0), matmul(product, inner));
    value = matmul(mul(value, 0.25), sub(mul(identity, 13.0), matmul(product, middle)));
  }
  return value;
}

/// Means of `landmarks` segments of rows: x [B, H, T, D], T a multiple of `landmarks`.
Tensor segment_means(const Tensor& x, int64_t landmarks) {
  return mean(
      reshape(contiguous(x), {x.size(0), x.size(1), landmarks, x.size(2) / landmarks, x.size(3)}),
      3);
}

/// Softmax through landmarks; q and k are scaled by head_dim^-¼ each.
Tensor nystrom_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const Tensor& key_padding, int64_t landmarks) {
  const int64_t length = q.size(2);
  const int64_t missing = (landmarks - length % landmarks) % landmarks;
  const Tensor q_marks = segment_means(with_zero_rows(q, 0, missing), landmarks);
  const Tensor k_marks = segment_means(with_zero_rows(k, 0, missing), landmarks);
  const Tensor first = softmax(matmul(q, transpose(k_marks)));
  const Tensor second = softmax(matmul(q_marks, transpose(k_marks)));
  AttentionOptions options;
  options.key_padding = key_padding;
  options.scale = 1.0;
  const Tensor third = attention(q_marks, k, v, options);
  return matmul(matmul(first, iterative_inverse(second)), third);
}

}  // namespace

std::vector<int64_t> attention_windows(const Json& config, int64_t layers) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const auto found = config.find("attention_window");
  std::vector<int64_t> windows(static_cast<size_t>(layers), 512);
  if (found && found->is_array()) {
    windows = found->integers(2, kMost);
  } else if (found) {
    windows.assign(static_cast<size_t>(layers), found->integer(2, kMost));
  }
  check_data(static_cast<int64_t>(windows.size()) == layers, config.file(),
             "attention_window has {} windows; there are {} layers", windows.size(), layers);
  for (const int64_t window : windows) {
    check_data(window % 2 == 0, config.file(), "attention_window is {}; it must be even", window);
  }
  return windows;
}

Block::Mixer longformer_mixer(const Scope& scope, const EncoderConfig& c, int64_t window) {
  const Projections local(scope, c);
  const auto dense = [&](const std::string& name) {
    return Linear(scope / (name + "_global"), c.hidden_size, c.hidden_size, {.init = c.init});
  };
  const GlobalProjections global{dense(c.names.query), dense(c.names.key), dense(c.names.value)};
  return by_sequence([=](const Tensor& x, const Tensor& key_padding, const Pass& pass) {
    LongformerInputs in;
    in.q = local.q(x);
    in.k = local.k(x);
    in.v = local.v(x);
    if (pass.global_rows.defined()) {
      in.global_mask = reshape(pass.global_rows, {x.size(0), x.size(1)});
    }
    in.key_padding = key_padding;
    in.window = window;
    in.dropout = local.dropout;
    in.training = pass.training;
    return local.out(longformer_attention(x, global, in, pass.first_example));
  });
}

Block::Mixer bigbird_mixer(const Scope& scope, const EncoderConfig& c, int64_t block_size,
                           int64_t random_blocks, int64_t layer) {
  const Projections p(scope, c, c.attention_bias);
  const RandomKey key{static_cast<uint64_t>(layer), 0};
  return by_sequence([=](const Tensor& x, const Tensor& key_padding, const Pass& pass) {
    const int64_t length = x.size(1);
    if (length <= (5 + 2 * random_blocks) * block_size) {
      return p.out(attention(p.q(x), p.k(x), p.v(x), p.options(key_padding, pass)));
    }
    const int64_t blocks = (length + block_size - 1) / block_size;
    const int64_t missing = blocks * block_size - length;
    BigBirdInputs in;
    in.q = with_zero_rows(p.q(x), 0, missing);
    in.k = with_zero_rows(p.k(x), 0, missing);
    in.v = with_zero_rows(p.v(x), 0, missing);
    in.key_padding = key_padding;
    if (missing > 0) {
      const Tensor real =
          key_padding.defined() ? key_padding : Tensor::full({x.size(0), length}, 1, DType::u8);
      in.key_padding = concat({real, Tensor::zeros({x.size(0), missing}, DType::u8)}, 1);
    }
    in.block_size = block_size;
    in.random_blocks = bigbird_random_blocks(p.heads, blocks, random_blocks, key, !pass.training);
    in.dropout = p.dropout;
    in.training = pass.training;
    return p.out(shows_whole_map() ? shown_bigbird_attention(in, length, key_padding)
                                   : slice(bigbird_attention(in), 2, 0, length));
  });
}

namespace {

/// Tensors of a layer's state in SequenceCache::state.
constexpr int64_t kStateSize = 5;

PerformerState layer_state(const SequenceCache& cache, int64_t layer) {
  const auto at = static_cast<size_t>(layer * kStateSize);
  return {cache.state[at], cache.state[at + 1], cache.state[at + 2], cache.state[at + 3],
          cache.state[at + 4]};
}

void set_layer_state(SequenceCache& cache, int64_t layer, const PerformerState& state) {
  const auto at = static_cast<size_t>(layer * kStateSize);
  cache.state[at] = state.max;
  cache.state[at + 1] = state.context;
  cache.state[at + 2] = state.total;
  cache.state[at + 3] = state.values;
  cache.state[at + 4] = state.count;
}

}  // namespace

SequenceCache performer_cache(int64_t layers) {
  SequenceCache cache;
  cache.state.resize(static_cast<size_t>(layers * kStateSize));
  return cache;
}

Block::Mixer performer_mixer(const Scope& scope, const EncoderConfig& c, int64_t features,
                             bool causal, int64_t layer) {
  const Projections p(scope, c, c.attention_bias);
  const int64_t depth = c.hidden_size / c.num_heads;
  const Tensor projection = scope.buffer("projection", {features, depth}, Init::zeros());
  if (scope.is_fresh()) {
    const Tensor drawn = performer_projection(features, depth, {0, static_cast<uint64_t>(layer)});
    std::copy_n(drawn.data<float>(), drawn.numel(), projection.data<float>());
  }
  const Block::Mixer whole =
      by_sequence([=](const Tensor& x, const Tensor& key_padding, const Pass&) {
        return p.out(performer_attention(p.q(x), p.k(x), p.v(x), projection, causal, key_padding));
      });
  return [=](const Tensor& rows, const Pass& pass, int64_t at) {
    if (pass.caches.empty()) {
      return whole(rows, pass, at);
    }
    const HookScope hook_scope("attn");
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < pass.layout.batch; ++i) {
      const int64_t begin = pass.layout.start(i);
      const Tensor x = unsqueeze(slice(rows, 0, begin, pass.layout.start(i + 1)), 0);
      SequenceCache& cache = *pass.caches[static_cast<size_t>(i)];
      PerformerState state = layer_state(cache, at);
      parts.push_back(
          squeeze(p.out(performer_continue(p.q(x), p.k(x), p.v(x), projection, state)), 0));
      set_layer_state(cache, at, state);
    }
    return concat(parts, 0);
  };
}

Block::Mixer nystrom_mixer(const Scope& scope, const EncoderConfig& c, int64_t landmarks,
                           int64_t kernel, bool full) {
  const Projections p(scope, c);
  Tensor weight;
  if (kernel > 0) {
    weight = (scope / "attention.self.conv")
                 .parameter("weight", {c.num_heads, 1, kernel, 1}, Init::fan_in(kernel));
  }
  return by_sequence([=](const Tensor& x, const Tensor& key_padding, const Pass& pass) {
    const Tensor v = p.v(x);
    Tensor z;
    if (full || x.size(1) <= landmarks) {
      z = attention(p.q(x), p.k(x), v, p.options(key_padding, pass));
    } else {
      const int64_t head_dim = c.hidden_size / c.num_heads;
      const double scale = std::pow(static_cast<double>(head_dim), -0.25);
      z = nystrom_attention(mul(p.q(x), scale), mul(p.k(x), scale), v, key_padding, landmarks);
    }
    if (weight.defined()) {
      z = add(z, convolve_positions(v, reshape(weight, {c.num_heads, kernel})));
    }
    return p.out(z);
  });
}

}  // namespace heed
