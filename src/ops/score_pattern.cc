#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/parallel.h"
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

/// A pattern's part as tensors over a range of the scores; no mask where nothing is hidden and no
/// bias where nothing is added.
struct WrittenPattern {
  Tensor mask, bias;
};

/// What the elements of a part do.
struct Kinds {
  bool hides = false, adds = false;
};

Kinds kinds_of(const Tensor& part) {
  if (!part.defined()) {
    return {.hides = true};
  }
  const int64_t keys = part.size(1);
  std::vector<std::pair<int, int>> rows(static_cast<size_t>(part.size(0)));
  parallel_for(part.size(0), [&](int64_t i) {
    const float* row = part.data<float>() + i * keys;
    int hides = 0, adds = 0;
    for (int64_t j = 0; j < keys; ++j) {
      hides |= row[j] == -INFINITY ? 1 : 0;
      adds |= row[j] != 0.0F && row[j] != -INFINITY ? 1 : 0;
    }
    rows[static_cast<size_t>(i)] = {hides, adds};
  });
  Kinds found;
  for (const auto& [hides, adds] : rows) {
    found = {found.hides || hides != 0, found.adds || adds != 0};
  }
  return found;
}

/// Parts of [rows, keys] as the mask of what they do not hide, and as what they add.
WrittenPattern split_parts(const std::vector<Tensor>& parts, const Shape& shape, bool adds) {
  WrittenPattern result{Tensor::zeros(shape, DType::u8), adds ? Tensor::zeros(shape) : Tensor()};
  const int64_t size = shape[2] * shape[3];
  parallel_for(static_cast<int64_t>(parts.size()) * shape[2], [&](int64_t at) {
    const Tensor& part = parts[static_cast<size_t>(at / shape[2])];
    const int64_t row = at % shape[2] * shape[3], into = at / shape[2] * size + row;
    for (int64_t j = 0; part.defined() && j < shape[3]; ++j) {
      const float value = part.data<float>()[row + j];
      const bool seen = value != -INFINITY;
      result.mask.data<uint8_t>()[into + j] = seen ? 1 : 0;
      if (adds) {
        result.bias.data<float>()[into + j] = seen ? value : 0.0F;
      }
    }
  });
  return result;
}

WrittenPattern written(const ScorePattern& pattern, const ScoreRange& range) {
  std::vector<int64_t> rows(static_cast<size_t>(range.row_end - range.row_begin));
  std::iota(rows.begin(), rows.end(), range.row_begin);
  std::vector<Tensor> parts;
  Kinds any;
  for (int64_t b = range.batch_begin; b < range.batch_end; ++b) {
    for (int64_t h = range.head_begin; h < range.head_end; ++h) {
      parts.push_back(pattern.part(b, h, rows, range.key_begin, range.key_end));
      const Kinds own = kinds_of(parts.back());
      any = {any.hides || own.hides, any.adds || own.adds};
    }
  }
  if (any.hides) {
    return split_parts(parts, range.shape(), any.adds);
  }
  const Tensor all = !any.adds ? Tensor() : parts.size() == 1 ? parts.front() : concat(parts, 0);
  return {Tensor(), all.defined() ? reshape(all, range.shape()) : all};
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
    part.mask = own.mask.defined() ? both(part.mask, own.mask) : part.mask;
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
  if (shape.batch * shape.queries == 0) {
    return {Tensor::zeros(shape.output(), q.dtype()), Tensor::zeros(shape.rows()),
            Tensor::zeros(shape.rows())};
  }
  const int64_t group = shape.heads / shape.num_kv_heads;
  const int64_t cells = std::max<int64_t>(shape.batch * group * shape.keys, 1);
  const int64_t chunk = std::max<int64_t>(kCells / cells, 1);
  std::vector<Tensor> outputs, row_max, row_inverse;  // of the heads that read one head of keys
  for (int64_t kv = 0; kv < shape.num_kv_heads; ++kv) {
    const int64_t first = kv * group, last = first + group;
    const Tensor own_q = slice(q, 1, first, last);
    const Tensor own_k = slice(k, 1, kv, kv + 1), own_v = slice(v, 1, kv, kv + 1);
    std::vector<Tensor> parts;
    RowCollector rows;
    for (int64_t begin = 0; begin < shape.queries; begin += chunk) {
      const int64_t end = std::min(begin + chunk, shape.queries);
      const ScoreRange range{0, shape.batch, first, last, begin, end, 0, shape.keys};
      parts.push_back(
          attention(slice(own_q, 2, begin, end), own_k, own_v, for_range(options, range)));
    }
    outputs.push_back(concat(parts, 2));
    row_max.push_back(concat(rows.row_max, 2));
    row_inverse.push_back(concat(rows.row_inverse, 2));
  }
  return {concat(outputs, 1), concat(row_max, 1), concat(row_inverse, 1)};
}

}  // namespace heed
