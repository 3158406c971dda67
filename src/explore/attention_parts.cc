#include "explore/attention_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heed/ops.h"

namespace heed::explore {

const RecordedAttention& asked_attention(Trace& trace, const Fields& fields, int64_t least_head) {
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

int64_t key_head(const RecordedAttention& attention, int64_t head) {
  return head / (attention.heads() / attention.record.k.size(1));
}

double scale_of(const RecordedAttention& attention) {
  return attention.record.options.scale.value_or(
      1.0 / std::sqrt(static_cast<double>(attention.record.q.size(3))));
}

Tensor bias_of(const RecordedAttention& attention, int64_t head, int64_t row_begin, int64_t row_end,
               int64_t key_begin, int64_t key_end) {
  const AttentionOptions& options = attention.record.options;
  if (!options.bias.defined() && !options.pattern) {
    return {};
  }
  const Tensor bias =
      attention.record.part(0, head, row_begin, row_end, key_begin, key_end).options.bias;
  if (!bias.defined()) {
    return {};
  }
  const Shape shape{row_end - row_begin, key_end - key_begin};
  const Tensor own = bias.rank() == 4   ? squeeze(squeeze(bias, 0), 0)
                     : bias.rank() == 3 ? squeeze(bias, 0)
                                        : bias;
  return expand(own.to(DType::f32), shape).contiguous();
}

Tensor head_rows(const Tensor& x, int64_t head, int64_t begin, int64_t end) {
  const Tensor part = slice(slice(slice(x, 0, 0, 1), 1, head, head + 1), 2, begin, end);
  return reshape(part.to(DType::f32).contiguous(), {end - begin, x.size(3)});
}

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

Tensor scores_of(const RecordedAttention& attention, int64_t head, int64_t row_begin,
                 int64_t row_end, int64_t key_begin, int64_t key_end) {
  constexpr double kUnderflow = -80.0;  // of a weight's logarithm: beyond it f32 has no weight
  const AttentionOptions& options = attention.record.options;
  const Tensor q = head_rows(attention.record.q, head, row_begin, row_end);
  const Tensor k = head_rows(attention.record.k, key_head(attention, head), key_begin, key_end);
  Tensor scores = mul(matmul(q, transpose(k, 0, 1)), scale_of(attention)).contiguous();
  const Tensor weights = weights_of(attention, head, row_begin, row_end, key_begin, key_end);
  const std::vector<double> lse =
      slice(slice(slice(attention.record.lse(), 0, 0, 1), 1, head, head + 1), 2, row_begin, row_end)
          .to_doubles();
  const Tensor bias = bias_of(attention, head, row_begin, row_end, key_begin, key_end);
  for (int64_t r = 0; r < scores.size(0); ++r) {
    for (int64_t c = 0; c < scores.size(1); ++c) {
      float& score = scores.data<float>()[r * scores.size(1) + c];
      if (options.softcap > 0) {
        score = static_cast<float>(options.softcap * std::tanh(score / options.softcap));
      }
      if (bias.defined()) {
        score += bias.data<float>()[r * scores.size(1) + c];
      }
      const bool none = weights.data<float>()[r * scores.size(1) + c] == 0.0F;
      if (none && !(score - lse[static_cast<size_t>(r)] < kUnderflow)) {
        score = -std::numeric_limits<float>::infinity();
      }
    }
  }
  return scores;
}

}  // namespace heed::explore
