#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "heed/generate.h"

namespace heed {

/// A shorter prefix is read again sooner than it is found and copied.
inline constexpr int64_t kLeastPrefix = 8;

/// Whether a cache holds keys and values of self-attention only.
bool is_plain(const SequenceCache& cache);

/// Whether a cache can give its beginning to another sequence: it is plain and no position was
/// given up. One that slid serves only a sequence that continues all of it.
bool can_share(const SequenceCache& cache);

/// False where a position's key depends on the length of its sequence (LongRoPE, dynamic NTK): what
/// was computed for one text does not serve a longer one then.
bool prefixes_last(const Model& model);

/// How many of the first `limit` tokens of `a` and `b` are the same.
int64_t common_prefix(const std::vector<int64_t>& a, const std::vector<int64_t>& b, int64_t limit);

/// Copies the first `length` positions of `from` into `to`, which is empty; all where it slid.
void copy_prefix(const SequenceCache& from, int64_t length, SequenceCache& to);

/// Caches of finished sequences, the last used first, up to a number of bytes.
struct Scheduler::Prefixes {
  explicit Prefixes(int64_t bytes) : limit(bytes) {}

  /// Keeps a finished sequence's cache. `tokens` may be longer than what it has read.
  void keep(std::vector<int64_t> tokens, SequenceCache cache);
  void for_each(
      const std::function<void(const std::vector<int64_t>&, const SequenceCache&)>& look) const;

  struct Kept {
    std::vector<int64_t> tokens;
    SequenceCache cache;
    int64_t bytes = 0;
  };
  const int64_t limit;
  int64_t used = 0;
  std::deque<Kept> kept;
};

}  // namespace heed
