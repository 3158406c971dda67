#include "base/dropout_streams.h"

namespace heed {
namespace {
thread_local int64_t t_first = 0;
thread_local int64_t t_count = 0;
thread_local std::span<const int64_t> t_starts;
}  // namespace

SampleScope::SampleScope(int64_t first, int64_t count) : first_(t_first), count_(t_count) {
  t_first = first;
  t_count = count;
}

SampleScope::~SampleScope() {
  t_first = first_;
  t_count = count_;
}

OneSample::OneSample(int64_t index) : SampleScope(t_first + index, 1) {}

RaggedRows::RaggedRows(std::span<const int64_t> starts) : before_(t_starts) { t_starts = starts; }
RaggedRows::~RaggedRows() { t_starts = before_; }

std::vector<SampleRange> sample_ranges(int64_t rows, int64_t count) {
  const auto ragged = static_cast<int64_t>(t_starts.size()) - 1;
  if (t_count > 0 && ragged == t_count && t_starts.back() == rows && rows > 0) {
    std::vector<SampleRange> ranges;
    const int64_t width = count / rows;
    for (int64_t i = 0; i < ragged; ++i) {
      ranges.push_back({t_starts[static_cast<size_t>(i)] * width,
                        t_starts[static_cast<size_t>(i) + 1] * width,
                        static_cast<uint64_t>(t_first + i)});
    }
    return ranges;
  }
  if (t_count == 0 || count % t_count != 0) {
    return {{0, count, 0}};
  }
  const int64_t each = count / t_count;
  std::vector<SampleRange> ranges;
  for (int64_t i = 0; i < t_count; ++i) {
    ranges.push_back({i * each, (i + 1) * each, static_cast<uint64_t>(t_first + i)});
  }
  return ranges;
}

uint64_t first_of_batch(int64_t count) {
  return t_count > 0 && count % t_count == 0 ? static_cast<uint64_t>(t_first * (count / t_count))
                                             : 0;
}

}  // namespace heed
