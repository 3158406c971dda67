#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "heed/nn.h"
#include "heed/ops.h"

namespace heed {

Layout Layout::equal(int64_t batch, int64_t length, Tensor key_padding) {
  check(!key_padding.defined() || key_padding.shape() == Shape({batch, length}), "layout",
        "padding mask {} does not fit a batch of {} x {}",
        key_padding.defined() ? key_padding.shape().to_string() : "", batch, length);
  return {batch, length, {}, std::move(key_padding), {}};
}

Layout Layout::ragged(const std::vector<int64_t>& lengths) {
  Layout layout;
  layout.batch = static_cast<int64_t>(lengths.size());
  layout.starts.resize(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), layout.starts.begin() + 1);
  return layout;
}

namespace {

constexpr int64_t kBlock = 32;   // numbers of a q8_0 block
constexpr int64_t kTile = 64;    // keys of a tile of the attention kernels
constexpr int64_t kChunk = 512;  // positions that come at once before a window's room must grow
constexpr int64_t kFirst = 256;  // positions that a cache begins with

/// Positions that a cache has room for.
int64_t room(int64_t capacity, int64_t window) {
  return window > 0 ? std::min(capacity, window + kTile + kChunk) : capacity;
}

/// Rows [begin, end) of [heads, capacity, width] as [1, heads, end - begin, width].
Tensor rows_of(const Tensor& x, int64_t begin, int64_t end) {
  const int64_t head = x.strides()[0];
  const int64_t width = x.size(2);
  return x.alias({1, x.size(0), end - begin, width}, {x.numel(), head, width, 1}, begin * width);
}

/// Moves the last `kept` of `held` rows of each head to the front, into a larger tensor where
/// `wanted` rows do not fit.
void keep_last(Tensor& x, int64_t held, int64_t kept, int64_t wanted) {
  const Tensor larger =
      wanted > x.size(1) ? Tensor::empty({x.size(0), wanted, x.size(2)}, x.dtype()) : x;
  const auto at = [](const Tensor& of, int64_t element) {
    return static_cast<char*>(of.raw()) + bytes_of(of.dtype(), element);
  };
  for (int64_t head = 0; head < x.size(0); ++head) {
    std::memmove(at(larger, head * larger.strides()[0]),
                 at(x, head * x.strides()[0] + (held - kept) * x.size(2)),
                 static_cast<size_t>(bytes_of(x.dtype(), kept * x.size(2))));
  }
  x = larger;
}

void check_cache_type(DType type, int64_t key_width, int64_t value_width) {
  check(type == DType::f32 || type == DType::f16 || type == DType::bf16 || type == DType::q8_0,
        "cache", "keys and values are kept in f32, f16, bf16 or q8_0, not in {}", name_of(type));
  check(type != DType::q8_0 || (key_width % kBlock == 0 && value_width % kBlock == 0), "cache",
        "q8_0 needs heads of a multiple of {} numbers; this model's have {} and {}. f16 fits any",
        kBlock, key_width, value_width);
}

/// [1, heads, count, width] -> [count, heads, width] in f32, a copy.
Tensor rows_first(const Tensor& x) {
  Tensor rows = Tensor::empty({x.size(2), x.size(1), x.size(3)});
  for (int64_t head = 0; head < x.size(1); ++head) {  // the rows of one lie together
    const Tensor part = slice(x, 1, head, head + 1);
    slice(rows, 1, head, head + 1)
        .copy_from(transpose(squeeze(is_quantized(x.dtype()) ? dequantize(part) : part, 0), 0, 1));
  }
  return rows;
}

/// to [1, heads, count, width] = x, rounded to the type of the cache.
void store_rows(Tensor to, const Tensor& x) {
  if (to.dtype() != DType::q8_0) {
    to.copy_from(x);
    return;
  }
  const Tensor rows = x.dtype() == DType::q8_0 ? x : quantize(x, DType::q8_0);
  const auto bytes = static_cast<size_t>(bytes_of(DType::q8_0, to.size(2) * to.size(3)));
  for (int64_t head = 0; head < to.size(1); ++head) {
    const auto at = [head](const Tensor& of) {
      return static_cast<char*>(of.raw()) + bytes_of(DType::q8_0, head * of.strides()[1]);
    };
    std::memcpy(at(to), at(rows), bytes);
  }
}

}  // namespace

KvCache::KvCache(int64_t heads, int64_t capacity, int64_t key_width, int64_t value_width,
                 int64_t window, DType type)
    : capacity_(capacity), window_(window) {
  check_cache_type(type, key_width, value_width);
  // Most sequences end long before their capacity, which may be a context of 100,000 positions.
  const int64_t first = std::min(room(capacity, window), window > 0 ? capacity : kFirst);
  k_ = Tensor::empty({heads, first, key_width}, type);
  v_ = Tensor::empty({heads, first, value_width}, type);
}

int64_t KvCache::bytes_for(int64_t length) const {
  if (!defined()) {
    return 0;
  }
  const int64_t most = kept_.on() ? kept_.sinks + kept_.recent + kChunk : length;
  return bytes_of(dtype(),
                  std::min(most, room(length, window_)) * k_.size(0) * (k_.size(2) + v_.size(2)));
}

/// Where `count` more do not fit, grows; with a window, gives up what no later position looks at.
void KvCache::make_room(int64_t count) {
  const int64_t held = length_ - first_;
  if (begin_ + held + count <= k_.size(1)) {
    return;
  }
  if (kept_.on()) {  // the rows before begin_ are free
    const int64_t size =
        std::min(kept_.recent + kept_.sinks + kChunk, std::max(held + count, 2 * k_.size(1)));
    keep_last(k_, begin_ + held, held, size);
    keep_last(v_, begin_ + held, held, size);
    begin_ = 0;
    return;
  }
  if (window_ == 0) {
    const int64_t size = std::max(held + count, std::min(capacity_, 2 * k_.size(1)));
    keep_last(k_, held, held, size);
    keep_last(v_, held, held, size);
    return;
  }
  const int64_t first = std::max(first_, (length_ - window_ + 1) / kTile * kTile);
  const int64_t kept = length_ - first;
  keep_last(k_, held, kept, kept + count);
  keep_last(v_, held, kept, kept + count);
  first_ = first;
}

void KvCache::keep_sinks(const KvWindow& window, Rotary rotary) {
  check(length_ == 0 && window_ == 0, "cache",
        "attention sinks need an empty cache of all positions");
  check(window.recent > 0 && window.sinks >= 0, "cache", "{} positions and {} attention sinks",
        window.recent, window.sinks);
  kept_ = window;
  rotary_ = std::move(rotary);
  capacity_ = std::numeric_limits<int64_t>::max();
}

/// Gives up the oldest positions behind the sinks, so that `count` more are within the window.
void KvCache::slide(int64_t count) {
  const int64_t lost = length_ - first_ + count - kept_.sinks - kept_.recent;
  if (lost <= 0) {
    return;
  }
  check(count <= kept_.recent, "cache", "{} positions at once; the window has {}", count,
        kept_.recent);
  const int64_t sinks = kept_.sinks;
  if (sinks > 0 && first_ == 0) {
    sink_keys_ = rows_first(rows_of(k_, begin_, begin_ + sinks));
    sink_values_ = rows_first(rows_of(v_, begin_, begin_ + sinks));
  }
  first_ += lost;
  begin_ += lost;
  if (sinks > 0) {  // over positions that were given up
    const Tensor keys = rotary_.defined() ? rotary_.shifted(sink_keys_, first_) : sink_keys_;
    const auto heads_first = [](const Tensor& x) { return unsqueeze(transpose(x, 0, 1), 0); };
    store_rows(rows_of(k_, begin_, begin_ + sinks), heads_first(keys));
    store_rows(rows_of(v_, begin_, begin_ + sinks), heads_first(sink_values_));
  }
}

void KvCache::append(const Tensor& k, const Tensor& v) {
  const int64_t count = k.size(-2);
  if (!defined()) {  // the encoder's keys and values come all at once: room for just them
    *this = KvCache(k.size(-3), count, k.size(-1), v.size(-1));
  }
  check(
      length_ + count <= capacity_, "cache",
      "{} positions do not fit: {} of {} are taken; the prompt is longer than the model's context",
      count, length_, capacity_);
  if (kept_.on()) {
    slide(count);
  }
  make_room(count);
  const int64_t begin = row(length_);
  store_rows(rows_of(k_, begin, begin + count), k.rank() == 3 ? unsqueeze(k, 0) : k);
  store_rows(rows_of(v_, begin, begin + count), v.rank() == 3 ? unsqueeze(v, 0) : v);
  length_ += count;
}

Tensor KvCache::keys() const { return rows_of(k_, begin_, row(length_)); }
Tensor KvCache::values() const { return rows_of(v_, begin_, row(length_)); }

void KvCache::truncate(int64_t length) {
  const bool stored =
      first_ == 0 || (kept_.on() ? length == length_ : length >= first_ + window_ - 1);
  check(length >= 0 && length <= length_ && stored, "cache",
        "cannot go back to {} of {} positions: only those from {} on are stored", length, length_,
        first_);
  length_ = length;
}

KvCache KvCache::copy() const {
  if (!defined()) {
    return {};
  }
  KvCache other(k_.size(0), capacity_, k_.size(2), v_.size(2), window_, dtype());
  if (kept_.on()) {
    other.keep_sinks(kept_, rotary_);
    other.sink_keys_ = sink_keys_;  // never written again: shared
    other.sink_values_ = sink_values_;
  }
  other.first_ = other.length_ = first_;
  const int64_t held = length_ - first_;
  other.make_room(held);
  store_rows(rows_of(other.k_, 0, held), keys());
  store_rows(rows_of(other.v_, 0, held), values());
  other.length_ = length_;
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

void SequenceCache::truncate(int64_t to) {
  check(state.empty(), "cache", "a recurrent state cannot go back to {} of {} positions", to,
        length);
  for (KvCache& layer : self) {
    layer.truncate(to);
  }
  length = to;
}

Tensor Pass::dropout(const Tensor& x, double p) const {
  return heed::dropout(x, p, training, {first_example, layout.batch, layout.starts});
}

Tensor Pass::positions() const {
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
