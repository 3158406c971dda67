#include "explore/attention_parts.h"

#include <array>
#include <cmath>

#include "heed/ops.h"

namespace heed::explore {

int64_t key_head(const RecordedAttention& attention, int64_t head) {
  return head / (attention.heads() / attention.record.k.size(1));
}

double scale_of(const RecordedAttention& attention) {
  return attention.record.options.scale.value_or(
      1.0 / std::sqrt(static_cast<double>(attention.record.q.size(3))));
}

Tensor broadcast_part(const Tensor& x, int64_t head, int64_t row_begin, int64_t row_end,
                      int64_t key_begin, int64_t key_end) {
  Tensor part = x;
  const std::array<std::pair<int64_t, int64_t>, 4> wanted{std::pair<int64_t, int64_t>{0, 1},
                                                          {head, head + 1},
                                                          {row_begin, row_end},
                                                          {key_begin, key_end}};
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const auto& [begin, end] = wanted[static_cast<size_t>(4 - x.rank() + axis)];
    if (part.size(axis) > 1) {
      part = slice(part, axis, begin, end);
    }
  }
  while (part.rank() > 2) {
    part = reshape(part.contiguous(),
                   Shape(std::vector<int64_t>(part.shape().begin() + 1, part.shape().end())));
  }
  return expand(part.to(DType::f32), {row_end - row_begin, key_end - key_begin}).contiguous();
}

}  // namespace heed::explore
