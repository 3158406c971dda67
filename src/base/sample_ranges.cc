#include "base/sample_ranges.h"

namespace heed {

std::vector<SampleRange> sample_ranges(int64_t rows, int64_t elements, int64_t first, int64_t count,
                                       std::span<const int64_t> starts) {
  std::vector<SampleRange> ranges;
  const bool ragged = count > 0 && static_cast<int64_t>(starts.size()) == count + 1 &&
                      starts.back() == rows && rows > 0;
  if (!ragged && (count == 0 || elements % count != 0)) {
    return {{0, elements, 0}};
  }
  const int64_t row = ragged ? elements / rows : 0;
  const int64_t each = ragged ? 0 : elements / count;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto sample = static_cast<uint64_t>(first + i);
    ranges.push_back(ragged ? SampleRange{starts[at] * row, starts[at + 1] * row, sample}
                            : SampleRange{i * each, (i + 1) * each, sample});
  }
  return ranges;
}

}  // namespace heed
