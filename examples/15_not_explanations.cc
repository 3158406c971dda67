// Lesson 15. Weights are not explanations: two readers of "it", equally good, one of them points.
#include <algorithm>
#include <cstdio>

#include "heed/inspect.h"
#include "heed/lessons.h"
#include "heed/picture.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

constexpr int64_t kHeldOut = 300;

/// Right answers with one head ablated.
double accuracy_without(const CoreferenceReader& reader, const HeadPointing& head) {
  const Recorder recorder(
      {.attention = false, .heads = {{head.place.layer, head.head, 0.0, head.place.kind}}});
  return score_coreference(reader, kHeldOut).accuracy;
}

/// The weights from "it" over the words, one row per head.
Heatmap look(const CoreferenceReader& reader, const CoreferenceExample& example) {
  const Recorder recorder;
  Heatmap map = lesson::heatmap("it = " + reader.answer(example));
  map.row_title = say("Head", "헤드");
  map.column_title = say("Word", "단어");
  std::vector<Tensor> rows;
  for (const RecordedAttention& seen : recorder.attentions()) {
    const int64_t row = seen.queries() == 1 ? 0 : example.query;
    for (int64_t head = 0; head < seen.heads(); ++head) {
      rows.push_back(seen.record.weights(0, head, row, row + 1, 0, seen.keys()));
      map.row_labels.push_back(seen.place.kind + " " + std::to_string(seen.place.layer) + "." +
                               std::to_string(head));
    }
  }
  map.column_labels = example.words;
  map.panels = {{"", concat(rows, 0)}};
  return map;
}

void look_into(const char* name, Readout readout, const std::string& picture) {
  const CoreferenceReader reader = train_coreference({.readout = readout});
  std::printf(
      say("%s: %.0f %% of new sentences answered right\n", "%s: 새 문장의 %.0f %%를 맞힘\n"), name,
      100 * score_coreference(reader, kHeldOut).accuracy);
  // Which heads put their largest weight, from "it", on the noun that it stands for?
  PointingScore score;
  for (const CoreferenceExample& example : coreference_examples({.held_out = true}, kHeldOut)) {
    const Recorder recorder;
    reader.answer(example);
    score.add(recorder, example.query, example.referent);
  }
  std::vector<HeadPointing> ranked = score.ranked();
  const HeadPointing best = ranked.front();
  std::sort(ranked.begin(), ranked.end(), [](const HeadPointing& a, const HeadPointing& b) {
    return std::pair(a.place.layer, a.head) < std::pair(b.place.layer, b.head);
  });
  for (const HeadPointing& head : ranked) {
    if (head.place.kind == "self") {
      std::printf(say("  layer %ld head %ld points in %.0f %%; ablated, %.0f %% are right\n",
                      "  층 %ld 헤드 %ld: 가리킨 비율 %.0f %%, 헤드를 끄면 정답 %.0f %%\n"),
                  head.place.layer, head.head, 100 * head.accuracy,
                  100 * accuracy_without(reader, head));
    }
  }
  std::printf(
      say("  best at pointing: %s, in %.0f %%; in 98 %% or more: %s\n\n",
          "  가장 잘 가리킨 것: %s, %.0f %%; 98 %% 이상: %s\n\n"),
      best.place.kind == "readout" ? say("the readout", "판독 헤드") : say("a head", "헤드"),
      100 * best.accuracy, lesson::yes_or_no(best.accuracy >= 0.98));
  if (!picture.empty()) {
    save_picture(picture, look(reader, coreference_tutorial(Language::english).front()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  look_into(say("A reader", "리더"), Readout::attention,
            argc > 1 ? argv[1] + std::string("/15-reader.svg") : "");
  look_into(say("A plain classifier", "단순 분류기"), Readout::classifier,
            argc > 1 ? argv[1] + std::string("/15-classifier.svg") : "");
}
