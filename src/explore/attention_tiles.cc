#include <cmath>
#include <limits>

#include "explore/answers.h"
#include "explore/attention_parts.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::explore {
namespace {

constexpr int64_t kTile = 256;         // cells of a tile's side
constexpr int64_t kWholeLevels = 4;    // levels below it read every weight, as the pass used it
constexpr int64_t kRowsAtATime = 256;  // of weights that exist at a time
constexpr int64_t kWork = int64_t{1} << 29;  // products of numbers that a sampled tile may cost
constexpr int64_t kFewRows = 1;              // of a cell, where masks or biases make rows costly

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
    const int64_t shared = key_head(attention, std::max<int64_t>(head, 0));
    const auto norms_of = [&](const Tensor& values) {
      const Tensor v = head_rows(values, shared, key_begin, key_end);
      return reshape(sqrt(sum(mul(v, v), -1)), {1, key_end - key_begin});
    };
    Tensor norms = norms_of(attention.record.v);
    if (attention.record.global_rows.defined()) {
      const Tensor global = reshape(
          slice(slice(attention.record.global_rows, 0, 0, 1), 1, row_begin, row_end).to(DType::f32),
          {row_end - row_begin, 1});
      norms = add(mul(sub(norms_of(attention.record.global_v), norms), global), norms);
    }
    weights = mul(weights, norms).contiguous();
  }
  return weights;
}

/// Takes the rows [begin, end) into the cells that they lie in.
void pool_rows(const Tensor& part, int64_t begin, int64_t end, const TilePlace& place,
               const Tensor& values) {
  const int64_t keys = part.size(1), columns = values.size(1);
  for (int64_t row = begin; row < end; ++row) {
    const float* in = part.data<float>() + (row - begin) * keys;
    float* cells = values.data<float>() + (row - place.row_begin) / place.cell * columns;
    for (int64_t c = 0; c < columns; ++c) {
      float most = cells[c];
      for (int64_t j = c * place.cell; j < std::min((c + 1) * place.cell, keys); ++j) {
        most = std::max(most, in[j]);
      }
      cells[c] = most;
    }
  }
}

/// A tile from weights of the pass: of every query, or of `per_cell` of each cell.
Tensor exact_tile(const RecordedAttention& attention, const std::string& what, int64_t head,
                  const TilePlace& place, int64_t per_cell) {
  const int64_t rows = (place.row_end - place.row_begin + place.cell - 1) / place.cell;
  const int64_t columns = (place.key_end - place.key_begin + place.cell - 1) / place.cell;
  const float nothing = what == "scores" ? -std::numeric_limits<float>::infinity() : 0.0F;
  Tensor values = Tensor::full({rows, columns}, nothing);
  const bool all = per_cell == place.cell;
  const int64_t step = all ? kRowsAtATime : place.cell / per_cell;
  for (int64_t row = place.row_begin; row < place.row_end; row += step) {
    const int64_t end = all ? std::min(row + kRowsAtATime, place.row_end) : row + 1;
    if (place.key_begin >= seen_keys(attention, end - 1).end &&
        place.key_begin >= seen_keys(attention, end - 1).prefix) {
      continue;  // none of these queries sees so late a key
    }
    pool_rows(shown_rows(attention, what, head, row, end, place.key_begin, place.key_end), row, end,
              place, values);
  }
  return values;
}

/// How many queries of a cell are read where not all can be.
int64_t rows_per_cell(const RecordedAttention& attention, int64_t head, const TilePlace& place) {
  const int64_t cells = (place.row_end - place.row_begin + place.cell - 1) / place.cell;
  const int64_t heads = head < 0 ? attention.heads() : 1;
  // A score costs its products and about as much as kBeside of them: it is compared and stored.
  constexpr int64_t kBeside = 16;
  const auto& pattern = attention.record.options.pattern;
  const int64_t products = attention.record.q.size(3) + (pattern ? pattern->products() : 0);
  const int64_t each = cells * (place.key_end - place.key_begin) * (products + kBeside) * heads;
  return std::clamp<int64_t>(kWork / std::max<int64_t>(each, 1), 1, place.cell);
}

}  // namespace

std::string answer_tile(Trace& trace, const Json& body) {
  const NoGrad no_grad;
  const Fields fields(body, {"kind", "layer", "head", "what", "level", "row", "column"});
  const std::string what = fields.text("what"), kind = fields.text("kind");
  const int64_t level = fields.integer("level", 0, 24);
  const int64_t head = fields.integer("head", -1, INT32_MAX);
  JsonWriter json;
  json.begin_object().field("kind", kind).field("layer", fields.integer("layer", 0, INT32_MAX));
  json.field("head", head).field("what", what).field("level", level);
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
  const RecordedAttention& attention = asked_attention(trace, fields, -1);
  const int64_t side = kTile << level;
  TilePlace place{};
  place.cell = int64_t{1} << level;
  place.row_begin = fields.integer("row", 0, INT32_MAX) * side;
  place.key_begin = fields.integer("column", 0, INT32_MAX) * side;
  place.row_end = std::min(place.row_begin + side, attention.queries());
  place.key_end = std::min(place.key_begin + side, attention.keys());
  if (place.row_begin >= place.row_end || place.key_begin >= place.key_end) {
    throw Failure(400, "invalid", "this tile lies outside the matrix", "row");
  }
  const bool whole = level < kWholeLevels;
  const bool sampled = !whole && can_be_sampled(attention) && (head >= 0 || what == "weights");
  const int64_t per_cell = whole     ? place.cell
                           : sampled ? rows_per_cell(attention, head, place)
                                     : kFewRows;
  const Tensor values = sampled ? sampled_tile(attention, what, head, place, per_cell)
                                : exact_tile(attention, what, head, place, per_cell);
  write_range(json, "rows", place.row_begin, place.row_end);
  write_range(json, "columns", place.key_begin, place.key_end);
  json.field("rows_per_cell", per_cell).key("values");
  write_tensor(json, values);
  return json.end_object().take();
}

}  // namespace heed::explore
