#include <cmath>
#include <limits>

#include "explore/answers.h"
#include "explore/attention_parts.h"
#include "heed/autograd.h"
#include "heed/ops.h"

namespace heed::explore {
namespace {

constexpr int64_t kTile = 256;       // cells of a tile's side
constexpr int64_t kChunk = 64;       // rows of weights that exist at a time
constexpr int64_t kAllRows = 1024;   // queries up to which figures are means over all of them
constexpr int64_t kSampledRows = 8;  // of a cell, from the third level on
constexpr int64_t kThumbnail = 24;
constexpr double kUnderflow = -80.0;  // of a weight's logarithm, beyond which f32 has no weight

/// The attention that a request names; `head` is checked where it has one.
const RecordedAttention& asked(Trace& trace, const Fields& fields, int64_t least_head = 0) {
  const RecordedAttention& found =
      trace.attention(fields.text("kind"), fields.integer("layer", 0, INT32_MAX));
  if (fields.has("head")) {
    const int64_t head = fields.integer("head", INT32_MIN, INT32_MAX);
    if (head < least_head || head >= found.heads()) {
      throw Failure(404, "not_found",
                    fmt::format("there is no head {}; there are {}", head, found.heads()), "head");
    }
  }
  return found;
}

/// Weights [rows, keys] of a head, or the mean of all heads for -1.
Tensor weights_of(const RecordedAttention& attention, int64_t head, int64_t row_begin,
                  int64_t row_end, int64_t key_begin, int64_t key_end) {
  if (head >= 0) {
    return attention.record.weights(0, head, row_begin, row_end, key_begin, key_end)
        .to(DType::f32)
        .contiguous();
  }
  Tensor sum;
  for (int64_t h = 0; h < attention.heads(); ++h) {
    const Tensor each =
        attention.record.weights(0, h, row_begin, row_end, key_begin, key_end).to(DType::f32);
    sum = sum.defined() ? add(sum, each) : each;
  }
  return mul(sum, 1.0 / static_cast<double>(attention.heads())).contiguous();
}

/// Rows [begin, end) of one head of q, k, v or the output.
Tensor head_rows(const Tensor& x, int64_t head, int64_t begin, int64_t end) {
  const Tensor part = slice(slice(slice(x, 0, 0, 1), 1, head, head + 1), 2, begin, end);
  return reshape(part.to(DType::f32).contiguous(), {end - begin, x.size(3)});
}

/// Scaled scores with soft cap and bias, -inf where masked.
Tensor scores_of(const RecordedAttention& attention, int64_t head, int64_t row_begin,
                 int64_t row_end, int64_t key_begin, int64_t key_end) {
  const AttentionOptions& options = attention.record.options;
  const Tensor q = head_rows(attention.record.q, head, row_begin, row_end);
  const Tensor k = head_rows(attention.record.k, key_head(attention, head), key_begin, key_end);
  Tensor scores = mul(matmul(q, transpose(k, 0, 1)), scale_of(attention)).contiguous();
  const Tensor weights = weights_of(attention, head, row_begin, row_end, key_begin, key_end);
  const Tensor lse = attention.record.lse();
  Tensor bias;
  if (options.bias.defined()) {
    bias = broadcast_part(options.bias, head, row_begin, row_end, key_begin, key_end);
  }
  for (int64_t r = 0; r < scores.size(0); ++r) {
    const double row_lse =
        slice(slice(slice(lse, 0, 0, 1), 1, head, head + 1), 2, row_begin + r, row_begin + r + 1)
            .to_doubles()
            .front();
    for (int64_t c = 0; c < scores.size(1); ++c) {
      float& score = scores.data<float>()[r * scores.size(1) + c];
      if (options.softcap > 0) {
        score = static_cast<float>(options.softcap * std::tanh(score / options.softcap));
      }
      if (bias.defined()) {
        score += bias.data<float>()[r * scores.size(1) + c];
      }
      const bool none = weights.data<float>()[r * scores.size(1) + c] == 0.0F;
      if (none && !(score - row_lse < kUnderflow)) {
        score = -std::numeric_limits<float>::infinity();
      }
    }
  }
  return scores;
}

/// What a tile shows of some rows.
Tensor shown_rows(const RecordedAttention& attention, const std::string& what, int64_t head,
                  int64_t row_begin, int64_t row_end, int64_t key_begin, int64_t key_end) {
  if (what == "scores") {
    Tensor sum;
    const int64_t first = std::max<int64_t>(head, 0);
    const int64_t end = head < 0 ? attention.heads() : head + 1;
    for (int64_t h = first; h < end; ++h) {
      const Tensor each = scores_of(attention, h, row_begin, row_end, key_begin, key_end);
      sum = sum.defined() ? add(sum, each) : each;
    }
    return mul(sum, 1.0 / static_cast<double>(end - first)).contiguous();
  }
  Tensor weights = weights_of(attention, head, row_begin, row_end, key_begin, key_end);
  if (what == "value_weighted") {
    const Tensor v = head_rows(attention.record.v, key_head(attention, std::max<int64_t>(head, 0)),
                               key_begin, key_end);
    const Tensor norms = sqrt(sum(mul(v, v), -1));
    weights = mul(weights, reshape(norms, {1, key_end - key_begin})).contiguous();
  }
  return weights;
}

/// How much a head attends to the key after an earlier occurrence of the query's token.
double induction_of(const Tensor& weights, int64_t first_row, const std::vector<ShownToken>& tokens,
                    double& rows) {
  double sum = 0;
  for (int64_t r = 0; r < weights.size(0); ++r) {
    const int64_t i = first_row + r;
    double own = 0;
    bool seen = false;
    for (int64_t j = 1; j <= i && std::cmp_less(j, tokens.size()); ++j) {
      if (tokens[static_cast<size_t>(j - 1)].id == tokens[static_cast<size_t>(i)].id && j - 1 < i) {
        seen = true;
        own += weights.data<float>()[r * weights.size(1) + j];
      }
    }
    sum += own;
    rows += seen ? 1 : 0;
  }
  return sum;
}

/// The first rows of the blocks that figures are read from: all, or some evenly spaced ones.
std::vector<int64_t> block_starts(int64_t queries) {
  std::vector<int64_t> starts;
  const int64_t blocks = (queries + kChunk - 1) / kChunk;
  const int64_t step = queries <= kAllRows ? 1 : std::max<int64_t>(1, blocks / 8);
  for (int64_t block = queries <= kAllRows ? 0 : step / 2; block < blocks; block += step) {
    starts.push_back(block * kChunk);
  }
  return starts;
}

struct HeadFigures {
  AttentionPatterns patterns;
  double induction = 0;
  Tensor thumbnail;
};

HeadFigures figures_of(const RecordedAttention& attention, int64_t head,
                       const std::vector<ShownToken>* tokens) {
  HeadFigures figures;
  const int64_t queries = attention.queries(), keys = attention.keys();
  const int64_t rows = std::min(queries, kThumbnail), columns = std::min(keys, kThumbnail);
  figures.thumbnail = Tensor::zeros({rows, columns});
  double total = 0, repeated = 0, induction = 0;
  for (const int64_t begin : block_starts(queries)) {
    const int64_t end = std::min(begin + kChunk, queries);
    const Tensor weights = weights_of(attention, head, begin, end, 0, keys);
    const AttentionPatterns part = attention_patterns(weights, attention.offset() + begin);
    const auto share = static_cast<double>(end - begin);
    total += share;
    figures.patterns.diagonal += share * part.diagonal;
    figures.patterns.previous += share * part.previous;
    figures.patterns.first += share * part.first;
    figures.patterns.local += share * part.local;
    figures.patterns.uniform += share * part.uniform;
    figures.patterns.entropy += share * part.entropy;
    figures.patterns.mean_distance += share * part.mean_distance;
    if (tokens != nullptr) {
      induction += induction_of(weights, begin, *tokens, repeated);
    }
    for (int64_t r = begin; r < end; ++r) {
      float* cells = figures.thumbnail.data<float>() + (r * rows / queries) * columns;
      for (int64_t j = 0; j < keys; ++j) {
        float& cell = cells[j * columns / keys];
        cell = std::max(cell, weights.data<float>()[(r - begin) * keys + j]);
      }
    }
  }
  for (double* figure :
       {&figures.patterns.diagonal, &figures.patterns.previous, &figures.patterns.first,
        &figures.patterns.local, &figures.patterns.uniform, &figures.patterns.entropy,
        &figures.patterns.mean_distance}) {
    *figure /= std::max(total, 1.0);
  }
  figures.induction = repeated > 0 ? induction / repeated : 0.0;
  return figures;
}

}  // namespace

std::string answer_heads(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer"});
  const RecordedAttention& attention = asked(trace, fields);
  const std::string& kind = attention.place.kind;
  const bool own = kind != "cross" && kind != "readout";
  const std::vector<ShownToken>* tokens =
      own ? &trace.tokens_of(kind == "encoder" ? "encoder." : "") : nullptr;
  const bool ids = tokens != nullptr && !tokens->empty() && tokens->front().id >= 0;
  const std::vector<double> shares = attention.output_shares(0);
  int64_t sampled = 0;
  for (const int64_t begin : block_starts(attention.queries())) {
    sampled += std::min(begin + kChunk, attention.queries()) - begin;
  }
  JsonWriter json;
  json.begin_object().field("kind", kind).field("layer", attention.place.layer);
  json.field("rows_sampled", sampled).key("heads").begin_array();
  for (int64_t head = 0; head < attention.heads(); ++head) {
    const HeadFigures f = figures_of(attention, head, ids ? tokens : nullptr);
    json.begin_object().field("head", head).field("entropy", f.patterns.entropy);
    json.field("mean_distance", f.patterns.mean_distance);
    const std::string pattern = name_of_pattern(f.patterns);
    json.field("pattern", pattern == "mixed" && f.induction > 0.4 ? "induction" : pattern);
    json.field("diagonal", f.patterns.diagonal).field("previous", f.patterns.previous);
    json.field("first", f.patterns.first).field("local", f.patterns.local);
    json.field("uniform", f.patterns.uniform).field("induction", f.induction);
    json.field("output_share", shares[static_cast<size_t>(head)]).key("thumbnail");
    write_tensor(json, f.thumbnail);
    json.end_object();
  }
  return json.end_array().end_object().take();
}

std::string answer_tile(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer", "head", "what", "level", "row", "column"});
  const std::string what = fields.text("what"), kind = fields.text("kind");
  const int64_t level = fields.integer("level", 0, 24);
  JsonWriter json;
  json.begin_object().field("kind", kind).field("layer", fields.integer("layer", 0, INT32_MAX));
  json.field("head", fields.integer("head", -1, INT32_MAX)).field("what", what);
  json.field("level", level);
  if (what == "rollout" || what == "contribution") {
    const Tensor values =
        what == "rollout" ? rollout_of(trace, kind) : contribution_of(trace, kind);
    write_range(json, "rows", 0, values.size(0));
    write_range(json, "columns", 0, values.size(1));
    json.field("rows_per_cell", 1).key("values");
    write_tensor(json, values);
    return json.end_object().take();
  }
  if (what != "weights" && what != "scores" && what != "value_weighted") {
    throw Failure(400, "invalid",
                  "'what' is one of weights, scores, value_weighted, contribution and rollout",
                  "what");
  }
  const RecordedAttention& attention = asked(trace, fields, -1);
  const int64_t side = kTile << level, cell = int64_t{1} << level;
  const int64_t row_begin = fields.integer("row", 0, INT32_MAX) * side;
  const int64_t key_begin = fields.integer("column", 0, INT32_MAX) * side;
  const int64_t row_end = std::min(row_begin + side, attention.queries());
  const int64_t key_end = std::min(key_begin + side, attention.keys());
  if (row_begin >= row_end || key_begin >= key_end) {
    throw Failure(400, "invalid", "this tile lies outside the matrix", "row");
  }
  const int64_t rows = (row_end - row_begin + cell - 1) / cell;
  const int64_t columns = (key_end - key_begin + cell - 1) / cell;
  const float nothing = what == "scores" ? -std::numeric_limits<float>::infinity() : 0.0F;
  const Tensor values = Tensor::full({rows, columns}, nothing);
  const int64_t per_cell = level >= 3 ? std::min(cell, kSampledRows) : cell;
  const bool masked = std::holds_alternative<Causal>(attention.record.options.position) &&
                      key_begin > row_end - 1 + attention.offset();
  for (int64_t r = 0; r < rows && !masked; ++r) {
    for (int64_t i = 0; i < per_cell;) {
      // Rows that follow each other are read together.
      const int64_t row = row_begin + r * cell + i * cell / per_cell;
      const int64_t count = per_cell == cell ? std::min(cell, kChunk) : 1;
      const int64_t end = std::min(row + count, row_end);
      i += count;
      if (row >= row_end) {
        break;
      }
      const Tensor part = shown_rows(attention, what, fields.integer("head", -1, INT32_MAX), row,
                                     end, key_begin, key_end);
      for (int64_t at = 0; at < end - row; ++at) {
        for (int64_t j = 0; j < key_end - key_begin; ++j) {
          float& value = values.data<float>()[r * columns + j / cell];
          value = std::max(value, part.data<float>()[at * part.size(1) + j]);
        }
      }
    }
  }
  write_range(json, "rows", row_begin, row_end);
  write_range(json, "columns", key_begin, key_end);
  json.field("rows_per_cell", per_cell).key("values");
  write_tensor(json, values);
  return json.end_object().take();
}

std::string answer_rows(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer", "head", "queries", "top_k"});
  const RecordedAttention& attention = asked(trace, fields, -1);
  const int64_t head = fields.integer("head", -1, INT32_MAX);
  const auto [begin, end] = fields.range("queries", attention.queries(), 4096);
  const int64_t top_k = fields.integer("top_k", 1, 64);
  const Tensor index = Tensor::full({end - begin, top_k}, -1.0, DType::i32);
  const Tensor weight = Tensor::zeros({end - begin, top_k});
  for (int64_t row = begin; row < end; row += kChunk) {
    const int64_t last = std::min(row + kChunk, end);
    const Tensor weights = weights_of(attention, head, row, last, 0, attention.keys());
    const auto best = top_attended(weights, std::min(top_k, attention.keys()));
    for (size_t r = 0; r < best.size(); ++r) {
      for (size_t i = 0; i < best[r].size(); ++i) {
        const int64_t at =
            (row - begin + static_cast<int64_t>(r)) * top_k + static_cast<int64_t>(i);
        if (best[r][i].weight > 0) {
          index.data<int32_t>()[at] = static_cast<int32_t>(best[r][i].key);
          weight.data<float>()[at] = static_cast<float>(best[r][i].weight);
        }
      }
    }
  }
  JsonWriter json;
  json.begin_object();
  write_range(json, "queries", begin, end);
  json.key("index");
  write_tensor(json, index);
  json.key("weight");
  write_tensor(json, weight);
  return json.end_object().take();
}

std::string answer_head(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer", "head", "queries", "keys"});
  const RecordedAttention& attention = asked(trace, fields);
  const AttentionOptions& options = attention.record.options;
  const int64_t head = fields.integer("head", 0, INT32_MAX);
  const auto [q0, q1] = fields.range("queries", attention.queries(), 512);
  const auto [k0, k1] = fields.range("keys", attention.keys(), 512);
  const auto* window = std::get_if<Window>(&options.position);
  JsonWriter json;
  json.begin_object().field("kind", attention.place.kind).field("layer", attention.place.layer);
  json.field("head", head);
  write_range(json, "queries", q0, q1);
  write_range(json, "keys", k0, k1);
  json.field("scale", scale_of(attention)).field("softcap", options.softcap);
  const bool causal =
      std::holds_alternative<Causal>(options.position) || (window != nullptr && window->right == 0);
  json.field("causal", causal).field("offset", attention.offset()).key("window");
  if (window != nullptr && window->left >= 0 && window->prefix == 0) {
    json.value(window->left + 1);
  } else {
    json.null();
  }
  const auto tensor = [&](const char* name, const Tensor& value) {
    json.key(name);
    write_tensor(json, value);
  };
  tensor("q", head_rows(attention.record.q, head, q0, q1));
  tensor("k", head_rows(attention.record.k, key_head(attention, head), k0, k1));
  tensor("v", head_rows(attention.record.v, key_head(attention, head), k0, k1));
  tensor("z", head_rows(attention.record.output, head, q0, q1));
  const Tensor lse =
      slice(slice(slice(attention.record.lse(), 0, 0, 1), 1, head, head + 1), 2, q0, q1);
  tensor("lse", reshape(lse.contiguous(), {q1 - q0}));
  if (options.bias.defined()) {
    tensor("bias", broadcast_part(options.bias, head, q0, q1, k0, k1));
  } else {
    json.key("bias").null();
  }
  // What no rule of position says: a mask of the pass, or one that an experiment cut.
  if (options.mask.defined() || (window != nullptr && (window->prefix > 0 || window->right > 0))) {
    const Tensor scores = scores_of(attention, head, q0, q1, k0, k1);
    const Tensor mask = Tensor::ones({q1 - q0, k1 - k0}, DType::u8);
    for (int64_t i = 0; i < mask.numel(); ++i) {
      mask.data<uint8_t>()[i] = std::isinf(scores.data<float>()[i]) ? 0 : 1;
    }
    tensor("mask", mask);
  } else {
    json.key("mask").null();
  }
  return json.end_object().take();
}

}  // namespace heed::explore
