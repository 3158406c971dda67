#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "heed/ops.h"
#include "ops/attention_problem.h"

namespace heed {
namespace {

constexpr int64_t kCells = int64_t{1} << 22;  // of a pattern that are written out at a time

/// The range of what is broadcast over the scores, aligned at the last axis.
Tensor range_of(const Tensor& x, const ScoreRange& range) {
  if (!x.defined()) {
    return x;
  }
  const std::pair<int64_t, int64_t> wanted[] = {{range.batch_begin, range.batch_end},
                                                {range.head_begin, range.head_end},
                                                {range.row_begin, range.row_end},
                                                {range.key_begin, range.key_end}};
  Tensor part = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto& [begin, end] = wanted[4 - x.rank() + axis];
    if (x.size(axis) > 1) {
      part = slice(part, axis, begin, end);
    }
  }
  return part;
}

PositionMask moved(PositionMask position, int64_t rows, int64_t keys) {
  if (auto* causal = std::get_if<Causal>(&position)) {
    causal->offset += rows - keys;
  } else if (auto* window = std::get_if<Window>(&position)) {
    window->offset += rows - keys;
    window->prefix = std::max<int64_t>(window->prefix - keys, 0);
  }
  return position;
}

/// A pattern's part as tensors over a range of the scores; no bias where nothing is added.
struct WrittenPattern {
  Tensor mask, bias;
};

WrittenPattern written(const ScorePattern& pattern, const ScoreRange& range) {
  std::vector<int64_t> rows(static_cast<size_t>(range.row_end - range.row_begin));
  std::iota(rows.begin(), rows.end(), range.row_begin);
  WrittenPattern result{Tensor::zeros(range.shape(), DType::u8), Tensor::zeros(range.shape())};
  const int64_t size = range.shape()[2] * range.shape()[3];
  uint8_t* mask = result.mask.data<uint8_t>();
  float* bias = result.bias.data<float>();
  bool adds = false;
  for (int64_t b = range.batch_begin; b < range.batch_end; ++b) {
    for (int64_t h = range.head_begin; h < range.head_end; ++h, mask += size, bias += size) {
      const Tensor part = pattern.part(b, h, rows, range.key_begin, range.key_end);
      for (int64_t i = 0; part.defined() && i < size; ++i) {
        const float value = part.data<float>()[i];
        const bool seen = value != -INFINITY;
        mask[i] = seen ? 1 : 0;
        bias[i] = seen ? value : 0.0F;
        adds = adds || bias[i] != 0.0F;
      }
    }
  }
  result.bias = adds ? result.bias : Tensor();
  return result;
}

Tensor both(const Tensor& mask, const Tensor& other) {
  return mask.defined()
             ? logical_and(mask.to(DType::boolean), other.to(DType::boolean)).contiguous()
             : other;
}

}  // namespace

AttentionOptions for_range(const AttentionOptions& options, const ScoreRange& range) {
  AttentionOptions part = options;
  part.position = moved(options.position, range.row_begin, range.key_begin);
  part.mask = range_of(options.mask, range);
  part.bias = range_of(options.bias, range);
  if (options.key_padding.defined()) {
    part.key_padding = slice(slice(options.key_padding, 0, range.batch_begin, range.batch_end), 1,
                             range.key_begin, range.key_end);
  }
  if (options.pattern) {
    const WrittenPattern own = written(*options.pattern, range);
    part.mask = both(part.mask, own.mask);
    part.bias = own.bias.defined() && part.bias.defined() ? part.bias + own.bias
                : own.bias.defined()                      ? own.bias
                                                          : part.bias;
    part.pattern = nullptr;
  }
  return part;
}

FlashResult pattern_attention(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                              const Tensor& v, const AttentionOptions& options) {
  check(options.dropout == 0.0, "attention", "a pattern takes no dropout");
  const int64_t cells = std::max<int64_t>(shape.batch * shape.heads * shape.keys, 1);
  const int64_t chunk = std::max<int64_t>(kCells / cells, 1);
  std::vector<Tensor> outputs;
  RowCollector rows;
  for (int64_t begin = 0; begin < shape.queries; begin += chunk) {
    const int64_t end = std::min(begin + chunk, shape.queries);
    outputs.push_back(
        attention(slice(q, 2, begin, end), k, v,
                  for_range(options, {0, shape.batch, 0, shape.heads, begin, end, 0, shape.keys})));
  }
  if (outputs.empty()) {
    return {Tensor::zeros(shape.output(), q.dtype()), Tensor::zeros(shape.rows()),
            Tensor::zeros(shape.rows())};
  }
  return {concat(outputs, 2), concat(rows.row_max, 2), concat(rows.row_inverse, 2)};
}

}  // namespace heed
