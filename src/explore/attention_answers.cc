#include <cmath>
#include <span>

#include "base/parallel.h"
#include "explore/answers.h"
#include "explore/attention_parts.h"
#include "explore/parts.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::explore {
namespace {

constexpr size_t kChunk = 64;       // rows of weights that exist at a time
constexpr int64_t kAllRows = 1024;  // queries up to which figures are means over all of them
constexpr int64_t kThumbnail = 24;

/// Positions of each token id: where a head that continues a repetition looks.
using Positions = std::map<int64_t, std::vector<int64_t>>;

Positions positions_of(const std::vector<ShownToken>& tokens) {
  Positions positions;
  for (size_t i = 0; i < tokens.size(); ++i) {
    positions[tokens[i].id].push_back(static_cast<int64_t>(i));
  }
  return positions;
}

/// The queries that figures are read from: all of them, or as many of each row of the thumbnail as
/// a long text leaves time for.
std::vector<int64_t> figure_rows(const RecordedAttention& attention) {
  constexpr int64_t kWeights = int64_t{1} << 21;  // of one head that are looked at
  const int64_t queries = attention.queries();
  std::vector<int64_t> rows;
  const int64_t each = std::clamp<int64_t>(kWeights / (kThumbnail * attention.keys()), 1, 8);
  const int64_t count = queries <= kAllRows ? queries : kThumbnail * each;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back((2 * i + 1) * queries / (2 * count));
  }
  return rows;
}

struct HeadFigures {
  AttentionPatterns patterns;
  double induction = 0, repeated = 0, rows = 0;
  Tensor thumbnail;

  void add(const AttentionPatterns& part, double count) {
    rows += count;
    patterns.diagonal += count * part.diagonal;
    patterns.previous += count * part.previous;
    patterns.first += count * part.first;
    patterns.local += count * part.local;
    patterns.uniform += count * part.uniform;
    patterns.entropy += count * part.entropy;
    patterns.mean_distance += count * part.mean_distance;
  }
  void finish() {
    for (double* figure : {&patterns.diagonal, &patterns.previous, &patterns.first, &patterns.local,
                           &patterns.uniform, &patterns.entropy, &patterns.mean_distance}) {
      *figure /= std::max(rows, 1.0);
    }
    induction = repeated > 0 ? induction / repeated : 0.0;
  }
};

/// Weights of some queries [rows, keys]: of the pass where they follow each other.
Tensor figure_weights(const RecordedAttention& attention, int64_t head,
                      std::span<const int64_t> rows) {
  const bool whole = rows.back() - rows.front() + 1 == static_cast<int64_t>(rows.size());
  if (whole) {
    return weights_of(attention, head, rows.front(), rows.back() + 1, 0, attention.keys());
  }
  if (can_be_sampled(attention)) {
    return sampled_weights(attention, head, rows);
  }
  std::vector<Tensor> parts;
  for (const int64_t row : rows) {
    parts.push_back(weights_of(attention, head, row, row + 1, 0, attention.keys()));
  }
  return concat(parts, 0);
}

HeadFigures figures_of(const RecordedAttention& attention, int64_t head,
                       const std::vector<ShownToken>* tokens, const Positions& positions) {
  HeadFigures figures;
  const int64_t queries = attention.queries(), keys = attention.keys();
  const int64_t rows = std::min(queries, kThumbnail), columns = std::min(keys, kThumbnail);
  figures.thumbnail = Tensor::zeros({rows, columns});
  const std::vector<int64_t> read = figure_rows(attention);
  const bool all = queries <= kAllRows;
  for (size_t at = 0; at < read.size(); at += kChunk) {
    const std::span<const int64_t> chunk(read.data() + at, std::min(kChunk, read.size() - at));
    const Tensor weights = figure_weights(attention, head, chunk);
    if (all) {
      figures.add(attention_patterns(weights, attention.offset() + chunk.front()),
                  static_cast<double>(chunk.size()));
    }
    for (size_t r = 0; r < chunk.size(); ++r) {
      const int64_t query = chunk[r], line = static_cast<int64_t>(r);
      const float* w = weights.data<float>() + line * keys;
      if (!all) {
        figures.add(
            attention_patterns(slice(weights, 0, line, line + 1), attention.offset() + query), 1.0);
      }
      if (tokens != nullptr && std::cmp_less(query, tokens->size())) {
        bool seen = false;
        for (const int64_t earlier : positions.at((*tokens)[static_cast<size_t>(query)].id)) {
          if (earlier >= query) {
            break;
          }
          seen = true;
          figures.induction += w[earlier + 1];
        }
        figures.repeated += seen ? 1 : 0;
      }
      float* cells = figures.thumbnail.data<float>() + (query * rows / queries) * columns;
      for (int64_t c = 0; c < columns; ++c) {
        // The keys j of cell c have j * columns / keys == c.
        const int64_t from = (c * keys + columns - 1) / columns;
        const int64_t to = ((c + 1) * keys + columns - 1) / columns;
        cells[c] = std::max(cells[c], *std::max_element(w + from, w + to));
      }
    }
  }
  figures.finish();
  return figures;
}

}  // namespace

std::string answer_heads(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer"});
  const RecordedAttention& attention = asked_attention(trace, fields);
  const std::string& kind = attention.place.kind;
  const bool own = kind != "cross" && kind != "readout";
  const std::vector<ShownToken>* tokens =
      own ? &trace.tokens_of(query_stack(trace, kind)) : nullptr;
  const bool ids = tokens != nullptr && !tokens->empty() && tokens->front().id >= 0;
  const std::vector<double> shares = attention.output_shares(0);
  const Positions positions = ids ? positions_of(*tokens) : Positions();
  std::vector<HeadFigures> figures(static_cast<size_t>(attention.heads()));
  parallel_for(attention.heads(), [&](int64_t head) {
    const NoGrad no_history;
    figures[static_cast<size_t>(head)] =
        figures_of(attention, head, ids ? tokens : nullptr, positions);
  });
  JsonWriter json;
  json.begin_object().field("kind", kind).field("layer", attention.place.layer);
  json.field("rows_sampled", figure_rows(attention).size()).key("heads").begin_array();
  for (int64_t head = 0; head < attention.heads(); ++head) {
    const HeadFigures& f = figures[static_cast<size_t>(head)];
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

std::string answer_rows(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer", "head", "queries", "top_k"});
  const RecordedAttention& attention = asked_attention(trace, fields, -1);
  const int64_t head = fields.integer("head", -1, INT32_MAX);
  const auto [begin, end] = fields.range("queries", attention.queries(), 4096);
  const int64_t top_k = fields.integer("top_k", 1, 64);
  const Tensor index = Tensor::full({end - begin, top_k}, -1.0, DType::i32);
  const Tensor weight = Tensor::zeros({end - begin, top_k});
  for (int64_t row = begin; row < end; row += kChunk) {
    const int64_t last = std::min<int64_t>(row + kChunk, end);
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
  const RecordedAttention& attention = asked_attention(trace, fields);
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
  if (attention.record.global_rows.defined()) {
    json.key("global").begin_object();
    tensor("rows",
           reshape(slice(slice(attention.record.global_rows, 0, 0, 1), 1, q0, q1), {q1 - q0}));
    tensor("v", head_rows(attention.record.global_v, key_head(attention, head), k0, k1));
    json.end_object();
  }
  tensor("z", head_rows(attention.record.output, head, q0, q1));
  const Tensor lse =
      slice(slice(slice(attention.record.lse(), 0, 0, 1), 1, head, head + 1), 2, q0, q1);
  tensor("lse", reshape(lse.contiguous(), {q1 - q0}));
  if (const Tensor bias = bias_of(attention, head, q0, q1, k0, k1); bias.defined()) {
    tensor("bias", bias);
  } else {
    json.key("bias").null();
  }
  // What no rule of position says: a mask of the pass, or one that an experiment cut.
  if (options.mask.defined() || options.pattern ||
      (window != nullptr && (window->prefix > 0 || window->right > 0))) {
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
