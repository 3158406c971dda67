#include <numeric>

#include "base/check.h"
#include "heed/nn.h"

namespace heed {

Layout Layout::equal(int64_t batch, int64_t length, Tensor key_padding) {
  check(!key_padding.defined() || key_padding.shape() == Shape({batch, length}), "layout",
        "padding mask {} does not fit a batch of {} x {}",
        key_padding.defined() ? key_padding.shape().to_string() : "", batch, length);
  return {batch, length, {}, std::move(key_padding)};
}

Layout Layout::ragged(const std::vector<int64_t>& lengths) {
  Layout layout;
  layout.batch = static_cast<int64_t>(lengths.size());
  layout.starts.resize(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), layout.starts.begin() + 1);
  return layout;
}

KvCache::KvCache(int64_t heads, int64_t capacity, int64_t key_width, int64_t value_width)
    : k_(Tensor::empty({heads, capacity, key_width})),
      v_(Tensor::empty({heads, capacity, value_width})) {}

namespace {

/// Rows [begin, end) of [heads, capacity, width] as [1, heads, end - begin, width].
Tensor rows_of(const Tensor& x, int64_t begin, int64_t end) {
  const int64_t head = x.strides()[0];
  const int64_t width = x.size(2);
  return x.alias({1, x.size(0), end - begin, width}, {x.numel(), head, width, 1}, begin * width);
}

}  // namespace

void KvCache::append(const Tensor& k, const Tensor& v) {
  const int64_t count = k.size(-2);
  if (!defined()) {  // the encoder's keys and values come all at once: room for just them
    *this = KvCache(k.size(-3), count, k.size(-1), v.size(-1));
  }
  check(
      length_ + count <= k_.size(1), "cache",
      "{} positions do not fit: {} of {} are taken; the prompt is longer than the model's context",
      count, length_, k_.size(1));
  Tensor k_rows = rows_of(k_, length_, length_ + count);
  Tensor v_rows = rows_of(v_, length_, length_ + count);
  k_rows.copy_from(k.rank() == 3 ? unsqueeze(k, 0) : k);
  v_rows.copy_from(v.rank() == 3 ? unsqueeze(v, 0) : v);
  length_ += count;
}

Tensor KvCache::keys() const { return rows_of(k_, 0, length_); }
Tensor KvCache::values() const { return rows_of(v_, 0, length_); }
void KvCache::truncate(int64_t length) { length_ = std::min(length_, length); }

KvCache KvCache::copy() const {
  if (!defined()) {
    return {};
  }
  KvCache other(k_.size(0), k_.size(1), k_.size(2), v_.size(2));
  other.append(keys(), values());
  return other;
}

SequenceCache SequenceCache::copy() const {
  SequenceCache other;
  for (const KvCache& cache : self) {
    other.self.push_back(cache.copy());
  }
  other.cross = cross;  // never written again: shared
  other.state = state;  // replaced, never written: shared
  other.length = length;
  return other;
}

HEED_API Tensor Pass::positions() const {
  Tensor result = Tensor::empty({layout.rows()}, DType::i64);
  int64_t* out = result.data<int64_t>();
  for (int64_t sequence = 0; sequence < layout.batch; ++sequence) {
    const int64_t past = caches.empty() ? 0 : caches[static_cast<size_t>(sequence)]->length;
    for (int64_t i = 0; i < layout.length_of(sequence); ++i) {
      *out++ = past + i;
    }
  }
  return result;
}

}  // namespace heed
