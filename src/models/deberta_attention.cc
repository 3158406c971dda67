#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "heed/transformer.h"
#include "models/deberta.h"

namespace heed {
namespace {

/// "c2p|p2c", or a list of the two.
std::vector<std::string> position_parts(const Json& config) {
  std::vector<std::string> parts;
  const auto found = config.find("pos_att_type");
  if (found && found->is_array()) {
    parts = found->strings();
  } else if (found) {
    std::string rest = found->string();
    while (!rest.empty()) {
      const size_t bar = std::min(rest.find('|'), rest.size());
      parts.push_back(rest.substr(0, bar));
      rest.erase(0, bar + 1);
    }
  }
  for (const std::string& part : parts) {
    check_data(part == "c2p" || part == "p2c", config.file(),
               "pos_att_type '{}' is not supported; use c2p and p2c", part);
  }
  return parts;
}

/// Distances of `bucket / 2` and more share buckets that widen with the logarithm. In f32, as the
/// reference computes it: the ceiling is taken of values close to whole numbers.
int64_t bucket_of(int64_t distance, const DebertaPositions& p) {
  const int64_t middle = p.buckets / 2;
  const int64_t size = std::abs(distance);
  if (p.buckets == 0 || size <= middle) {
    return distance;
  }
  const auto mid = static_cast<float>(middle);
  const float scaled = std::log(static_cast<float>(size) / mid) /
                       std::log(static_cast<float>(p.max_distance - 1) / mid) *
                       static_cast<float>(middle - 1);
  const auto bucket = static_cast<int64_t>(std::ceil(scaled)) + middle;
  return distance < 0 ? -bucket : bucket;
}

/// Rows of the table for the distances -(length - 1) … length - 1. `sign`: 1 for content to
/// position, -1 for position to content.
Tensor table_rows(int64_t length, int64_t sign, const DebertaPositions& p) {
  std::vector<int64_t> rows;
  for (int64_t distance = 1 - length; distance < length; ++distance) {
    const int64_t bucket = sign * bucket_of(-distance, p);
    rows.push_back(std::clamp<int64_t>(bucket + p.span(), 0, 2 * p.span() - 1));
  }
  return Tensor::from(rows, {2 * length - 1});
}

struct Shared {
  Tensor table;  ///< [2 * span, hidden_size]
  Norm norm;
};

/// What one layer needs for its attention.
struct Layer {
  std::shared_ptr<const Shared> shared;
  DebertaPositions positions;
  Linear query, key, value, output, position_key, position_query;
  int64_t heads = 1;
  double dropout = 0.0, table_dropout = 0.0;

  /// [B, T, hidden_size] -> [B, heads, T, head_dim]
  Tensor split(const Tensor& x) const {
    return transpose(reshape(x, {x.size(0), x.size(1), heads, -1}), 1, 2);
  }

  /// What is added to the scaled scores.
  void add_positions(const Tensor& q, const Tensor& k, const Pass& pass,
                     AttentionOptions& options) const {
    if (!positions.content_to_position && !positions.position_to_content) {
      return;
    }
    constexpr int64_t kLong = 2048;  // positions, from which on no tensor holds every pair
    const int64_t length = q.size(2);
    Tensor table = shared->norm.defined() ? shared->norm(shared->table) : shared->table;
    table = heed::dropout(table, table_dropout, pass.training);
    const auto by_head = [this](const Tensor& x) { return reshape(x, {x.size(0), heads, -1}); };
    DisentangledPositions of;
    if (positions.content_to_position) {
      of.key = by_head(position_key(table));
      of.key_rows = table_rows(length, 1, positions);
    }
    if (positions.position_to_content) {
      of.query = by_head(position_query(table));
      of.query_rows = table_rows(length, -1, positions);
    }
    if (length < kLong || pass.training || needs_grad({q, k, of.key, of.query})) {
      options.bias = disentangled_bias(q, k, of, *options.scale);
    } else {
      options.pattern = disentangled_pattern(q, k, of, *options.scale);
    }
  }

  Tensor operator()(const Tensor& x, const Tensor& key_padding, const Pass& pass) const {
    const Tensor q = observe("hook_q", split(query(x)));
    const Tensor k = observe("hook_k", split(key(x)));
    const Tensor v = observe("hook_v", split(value(x)));
    AttentionOptions options;
    options.scale = 1.0 / std::sqrt(static_cast<double>(q.size(3) * (1 + positions.named_kinds)));
    add_positions(q, k, pass, options);
    options.key_padding = key_padding;
    options.dropout = pass.training ? dropout : 0.0;
    options.training = pass.training;
    options.first_example = pass.first_example;
    Tensor z = attention(q, k, v, options);
    if (key_padding.defined()) {
      // The reference lets padding attend to everything evenly.
      const Tensor real =
          cast(reshape(key_padding, {key_padding.size(0), 1, key_padding.size(1), 1}), DType::f32);
      const Tensor all = mean(v, 2, true);
      z = add(mul(z, real), mul(all, add(mul(real, -1.0), 1.0)));
    }
    const Tensor rows = reshape(transpose(z, 1, 2), {x.size(0), x.size(1), -1});
    return output(observe("hook_z", rows));
  }
};

/// DeBERTa's convolution over neighbouring positions of the embeddings, added to the first layer's
/// result.
struct Convolution {
  Tensor weight;  ///< [hidden_size, hidden_size / groups, kernel]
  Tensor bias;
  Norm norm;
  DebertaPositions positions;
  double dropout = 0.0;

  /// Row of the neighbour `offset` away, or a row of zeros outside the sequence.
  Tensor neighbours(const Tensor& padded, int64_t offset, const Layout& layout) const {
    std::vector<int64_t> rows;
    for (int64_t b = 0; b < layout.batch; ++b) {
      const int64_t length = layout.length_of(b);
      for (int64_t t = 0; t < length; ++t) {
        const bool inside = t + offset >= 0 && t + offset < length;
        rows.push_back(inside ? layout.start(b) + t + offset : layout.rows());
      }
    }
    return index_rows(padded, Tensor::from(rows, {layout.rows()}));
  }

  Tensor operator()(const Tensor& in, const Tensor& out, const Pass& pass) const {
    const int64_t size = in.size(1);
    const int64_t part = size / positions.groups;
    const Tensor padded = concat({in, Tensor::zeros({1, size}, in.dtype())}, 0);
    std::vector<Tensor> taps;
    for (int64_t tap = 0; tap < positions.kernel; ++tap) {
      taps.push_back(neighbours(padded, tap - positions.kernel / 2, pass.layout));
    }
    std::vector<Tensor> groups;
    for (int64_t g = 0; g < positions.groups; ++g) {
      std::vector<Tensor> columns;
      columns.reserve(taps.size());
      for (const Tensor& tap : taps) {
        columns.push_back(slice(tap, 1, g * part, (g + 1) * part));
      }
      const Tensor matrix = reshape(transpose(slice(weight, 0, g * part, (g + 1) * part), 1, 2),
                                    {part, positions.kernel * part});
      groups.push_back(
          linear(concat(columns, 1), matrix, slice(bias, 0, g * part, (g + 1) * part)));
    }
    Tensor convolved = groups.size() == 1 ? groups.front() : concat(groups, 1);
    Tensor real;
    if (pass.layout.key_padding.defined()) {
      real = reshape(cast(pass.layout.key_padding, DType::f32), {in.size(0), 1});
      convolved = mul(convolved, real);
    }
    convolved = activate(pass.dropout(convolved, dropout), positions.activation);
    const Tensor result = norm(add(out, convolved));
    return real.defined() ? mul(result, real) : result;
  }
};

std::shared_ptr<const Shared> make_shared_table(const Scope& base, const EncoderConfig& c,
                                                const DebertaPositions& p) {
  auto shared = std::make_shared<Shared>();
  if (p.relative) {
    shared->table = (base / "encoder" / "rel_embeddings")
                        .parameter("weight", {2 * p.span(), c.hidden_size}, c.init);
  }
  if (p.norm) {
    shared->norm = Norm(base / "encoder" / "LayerNorm", c.hidden_size, c.norm);
  }
  return shared;
}

Layer make_layer(const Scope& scope, const EncoderConfig& c, const DebertaPositions& p) {
  const int64_t size = c.hidden_size;
  const auto dense = [&](const std::string& name) {
    return Linear(scope / name, size, size, {.init = c.init});
  };
  Layer layer;
  layer.positions = p;
  layer.heads = c.num_heads;
  layer.dropout = c.attention_dropout;
  layer.table_dropout = c.dropout;
  layer.query = dense(c.names.query);
  layer.key = dense(c.names.key);
  layer.value = dense(c.names.value);
  layer.output = dense(c.names.output);
  layer.position_key = layer.key;
  layer.position_query = layer.query;
  if (!p.shared_projections && p.content_to_position) {
    layer.position_key = dense("attention.self.pos_key_proj");
  }
  if (!p.shared_projections && p.position_to_content) {
    layer.position_query = dense("attention.self.pos_query_proj");
  }
  return layer;
}

}  // namespace

DebertaPositions read_deberta_positions(const Json& config, const EncoderConfig& c) {
  DebertaPositions p;
  const std::vector<std::string> parts = position_parts(config);
  const bool to_position = std::count(parts.begin(), parts.end(), "c2p") > 0;
  const bool to_content = std::count(parts.begin(), parts.end(), "p2c") > 0;
  p.named_kinds = (to_position ? 1 : 0) + (to_content ? 1 : 0);
  p.relative = config.boolean_or("relative_attention", false);
  p.content_to_position = p.relative && to_position;
  p.position_to_content = p.relative && to_content;
  p.shared_projections = config.boolean_or("share_att_key", false);
  p.buckets = std::max<int64_t>(config.integer_or("position_buckets", -1, -1, 1 << 24), 0);
  p.max_distance = config.integer_or("max_relative_positions", -1, -1, 1 << 24);
  if (p.max_distance < 1) {
    p.max_distance = c.context_length;
  }
  check_data(p.buckets == 0 || (p.buckets >= 2 && p.max_distance - 1 > p.buckets / 2),
             config.file(),
             "position_buckets {} must be at least 2, and max_relative_positions {} more than half "
             "of it",
             p.buckets, p.max_distance);
  const std::string norm = config.string_or("norm_rel_ebd", "none");
  check_data(norm == "none" || norm == "layer_norm", config.file(),
             "norm_rel_ebd '{}' is not supported; use none or layer_norm", norm);
  p.norm = norm == "layer_norm";
  p.kernel = config.integer_or("conv_kernel_size", 0, 0, 1024);
  check_data(p.kernel == 0 || p.kernel % 2 == 1, config.file(),
             "conv_kernel_size is {}; it must be odd", p.kernel);
  p.groups = config.integer_or("conv_groups", 1, 1, c.hidden_size);
  check_data(c.hidden_size % p.groups == 0, config.file(),
             "hidden_size {} is not divisible by conv_groups {}", c.hidden_size, p.groups);
  p.activation = activation_of(config, "conv_act", "tanh");
  return p;
}

void use_disentangled_attention(EncoderConfig& encoder, const DebertaPositions& positions) {
  // One table for all layers, made with the first.
  auto shared = std::make_shared<std::shared_ptr<const Shared>>();
  const EncoderConfig c = encoder;
  encoder.make_mixer = [c, positions, shared](const Scope& base, const Scope& scope, int64_t layer,
                                              Block::Parts& parts) {
    if (layer == 0) {
      *shared = make_shared_table(base, c, positions);
    }
    Layer made = make_layer(scope, c, positions);
    made.shared = *shared;
    parts.mixer = by_sequence(std::move(made));
    if (layer == 0 && positions.kernel > 0) {
      const Scope at = base / "encoder" / "conv";
      Convolution convolution;
      const int64_t size = c.hidden_size;
      convolution.weight =
          (at / "conv")
              .parameter("weight", {size, size / positions.groups, positions.kernel}, c.init);
      convolution.bias = (at / "conv").parameter("bias", {size}, Init::zeros());
      convolution.norm = Norm(at / "LayerNorm", size, c.norm);
      convolution.positions = positions;
      convolution.dropout = c.dropout;
      parts.finish = std::move(convolution);
    }
  };
}

}  // namespace heed
