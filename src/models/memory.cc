#include "models/memory.h"

#include <algorithm>

namespace heed {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kShown = 1024;  // positions where a model has no limit

/// Bytes of keys and values of so many positions in all layers.
int64_t cache_bytes(const Model& model, int64_t length) {
  const ModelKind kind = model.kind();
  if (kind != ModelKind::decoder && kind != ModelKind::encoder_decoder &&
      kind != ModelKind::vision_decoder && kind != ModelKind::speech_decoder) {
    return 0;
  }
  int64_t bytes = 0;
  for (const KvCache& cache : model.new_cache(1).self) {
    bytes += cache.bytes_for(length);
  }
  return bytes;
}

/// Activations that the gradient of one block reads, in floats a position: norms, q, k, v, the
/// attention's result, and the feed-forward part (about four widths in, activated and out).
int64_t kept_a_block(int64_t width) { return 16 * width; }

}  // namespace

MemoryEstimate estimate_memory(const Model& model) {
  MemoryEstimate estimate;
  for (const Parameter& parameter : model.parameters()) {
    const int64_t bytes = parameter.tensor.bytes();
    estimate.weights += bytes;
    estimate.weights_by_type[std::string(name_of(parameter.tensor.dtype()))] += bytes;
  }
  const int64_t context = model.context_length();
  estimate.length = context > 0 ? std::min(context, kShown) : kShown;
  const int64_t step =
      estimate.length * (6 * model.hidden_size()) * kFloat + model.vocab_size() * kFloat;
  estimate.run = estimate.weights + cache_bytes(model, estimate.length) + step;
  const int64_t kept = estimate.length * (model.num_layers() * kept_a_block(model.hidden_size()) +
                                          2 * model.hidden_size());
  constexpr int64_t kCopies = 4;  // weight, gradient, two moments
  estimate.train = (kCopies * model.parameter_count() + kept) * kFloat + step;
  for (const int64_t length : {128, 512, 1024, 2048, 4096, 16384, 65536}) {
    estimate.attention.push_back({length, model.num_heads() * length * length * kFloat,
                                  length * (model.hidden_size() + model.num_heads()) * kFloat,
                                  cache_bytes(model, length)});
  }
  return estimate;
}

}  // namespace heed
