#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed {

// Random numbers by example. Dropout draws for element i of example s what it would draw for it in
// any other company, so that a batch gives the same masks whole, in pieces, or spread over ranks.

/// The examples of the pass on this thread: `first` … of the whole batch, `count` of them. Without
/// one, a tensor is drawn for as a whole.
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

/// Example `index` of the pass alone.
class OneSample : public SampleScope {
 public:
  explicit OneSample(int64_t index);
};

/// Rows in this scope belong to examples of different lengths: `starts` has the first row of each,
/// and their number. Nothing changes where it is empty. It must outlive the scope.
class RaggedRows {
 public:
  explicit RaggedRows(std::span<const int64_t> starts);
  ~RaggedRows();
  RaggedRows(const RaggedRows&) = delete;
  RaggedRows& operator=(const RaggedRows&) = delete;

 private:
  std::span<const int64_t> before_;
};

/// Elements [begin, end) of a tensor belong to example `sample` of the whole batch.
struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t sample = 0;
};
/// A tensor of `count` elements in `rows` rows, cut by example; one range where the pass has no
/// examples or they do not divide it.
std::vector<SampleRange> sample_ranges(int64_t rows, int64_t count);

/// The place in the whole batch of the first of `count` entries, some for each example of the pass.
uint64_t first_of_batch(int64_t count);

}  // namespace heed
