#include <algorithm>

#include "base/check.h"
#include "heed/inspect.h"

namespace heed {

void PointingScore::add(const Recorder& recorder, int64_t query, int64_t target, int64_t sequence) {
  ++examples_;
  size_t next = 0;
  for (const RecordedAttention& attention : recorder.attentions()) {
    // A readout has one query only; other attention has one row per position.
    const int64_t row = attention.queries() == 1 ? 0 : query;
    check(row >= 0 && row < attention.queries() && target >= 0 && target < attention.keys(),
          "PointingScore", "query {} and target {} do not lie in '{}', which is [{}, {}]", query,
          target, attention.place.name, attention.queries(), attention.keys());
    for (int64_t head = 0; head < attention.heads(); ++head, ++next) {
      if (next == heads_.size()) {
        heads_.push_back({attention.place, head, 0, 0});
      }
      HeadPointing& score = heads_[next];
      check(score.place.name == attention.place.name && score.head == head, "PointingScore",
            "'{}' was not among the heads of the first example", attention.place.name);
      const Tensor weights =
          attention.record.weights(sequence, head, row, row + 1, 0, attention.keys())
              .to(DType::f32);
      const float* w = weights.data<float>();
      const int64_t best = std::max_element(w, w + attention.keys()) - w;
      score.accuracy += best == target ? 1 : 0;
      score.mean_weight += static_cast<double>(w[target]);
    }
  }
}

std::vector<HeadPointing> PointingScore::ranked() const {
  std::vector<HeadPointing> table = heads_;
  for (HeadPointing& head : table) {
    head.accuracy /= static_cast<double>(std::max<int64_t>(examples_, 1));
    head.mean_weight /= static_cast<double>(std::max<int64_t>(examples_, 1));
  }
  std::stable_sort(table.begin(), table.end(), [](const HeadPointing& a, const HeadPointing& b) {
    return a.accuracy > b.accuracy;
  });
  return table;
}

}  // namespace heed
