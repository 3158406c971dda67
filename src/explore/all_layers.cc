#include <fmt/format.h>

#include "explore/attention_parts.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::explore {
namespace {

constexpr int64_t kMostRows = 1024;

std::vector<const RecordedAttention*> layers_of(Trace& trace, const std::string& kind) {
  std::vector<const RecordedAttention*> layers = trace.attentions_of(kind);
  if (layers.empty()) {
    throw Failure(404, "not_found", fmt::format("there is no attention of kind {}", kind), "kind");
  }
  if (std::max(layers.front()->queries(), layers.front()->keys()) > kMostRows) {
    throw Failure(413, "too_large",
                  fmt::format("a view of all layers takes up to {} tokens", kMostRows), "what");
  }
  return layers;
}

}  // namespace

Tensor rollout_of(Trace& trace, const std::string& kind) {
  const NoGrad no_grad;
  Tensor result;
  for (const RecordedAttention* each : layers_of(trace, kind)) {
    const int64_t n = each->queries();
    if (n != each->keys()) {
      throw Failure(409, "unsupported", "a rollout is of tokens that look at each other", "what");
    }
    const auto heads = static_cast<double>(each->heads());
    const Tensor mixed = Tensor::zeros({n, n});
    for (int64_t head = 0; head < each->heads(); ++head) {
      const Tensor weights = each->record.weights(0, head).to(DType::f32).contiguous();
      for (int64_t i = 0; i < n * n; ++i) {
        mixed.data<float>()[i] += static_cast<float>(0.5 * weights.data<float>()[i] / heads);
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      mixed.data<float>()[i * n + i] += 0.5F;
    }
    result = result.defined() ? matmul(mixed, result) : mixed;
  }
  return result;
}

Tensor contribution_of(Trace& trace, const std::string& kind) {
  const NoGrad no_grad;
  const std::vector<const RecordedAttention*> layers = layers_of(trace, kind);
  const int64_t rows = layers.front()->queries(), columns = layers.front()->keys();
  Tensor result = Tensor::zeros({rows, columns});
  std::vector<double> sums(static_cast<size_t>(rows * columns));
  for (const RecordedAttention* each : layers) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t head = 0; head < each->heads(); ++head) {
      const Tensor moved = each->value_weighted(0, head).to(DType::f32).contiguous();
      for (int64_t i = 0; i < rows * columns; ++i) {
        sums[static_cast<size_t>(i)] += moved.data<float>()[i];
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      const auto begin = sums.begin() + r * columns;
      double total = 0;
      for (int64_t c = 0; c < columns; ++c) {
        total += begin[c];
      }
      for (int64_t c = 0; c < columns && total > 0; ++c) {
        result.data<float>()[r * columns + c] +=
            static_cast<float>(begin[c] / total / static_cast<double>(layers.size()));
      }
    }
  }
  return result;
}

}  // namespace heed::explore
