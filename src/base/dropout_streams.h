#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed {

// Random streams per example. An example's dropout mask does not depend on the rest of its batch,
// so a batch gets the same masks as a whole, in micro-batches, or spread over ranks.

/// Declares that the pass on this thread covers examples `first` to `first + count` of the global
/// batch. Without a scope, one random stream covers a whole tensor.
class SampleScope {
 public:
  SampleScope(int64_t first, int64_t count);
  ~SampleScope();
  SampleScope(const SampleScope&) = delete;
  SampleScope& operator=(const SampleScope&) = delete;

 private:
  int64_t first_;
  int64_t count_;
};

/// Narrows the current scope to its example `index`.
class OneSample : public SampleScope {
 public:
  explicit OneSample(int64_t index);
};

/// Declares that rows in this scope belong to examples of different lengths. `starts` holds the
/// first row of each example and, last, the total number of rows; it must outlive the scope. An
/// empty span changes nothing.
class RaggedRows {
 public:
  explicit RaggedRows(std::span<const int64_t> starts);
  ~RaggedRows();
  RaggedRows(const RaggedRows&) = delete;
  RaggedRows& operator=(const RaggedRows&) = delete;

 private:
  std::span<const int64_t> before_;
};

/// Elements [begin, end) of a tensor belong to example `sample` of the global batch.
struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t sample = 0;
};
/// Splits a tensor of `count` elements in `rows` rows by example. Returns one range if there is no
/// scope or the examples do not divide the tensor evenly.
std::vector<SampleRange> sample_ranges(int64_t rows, int64_t count);

/// Index in the global batch of the first of `count` entries, an equal number per example of the
/// pass.
uint64_t first_of_batch(int64_t count);

}  // namespace heed
