#include "train/class_report.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/language.h"
#include "base/printable.h"
#include "draw/text_width.h"

namespace heed {
namespace {

constexpr size_t kMostRows = 40;
constexpr size_t kMostDrawn = 64;
constexpr int kMostLabel = 32;

/// The most frequent class where the model never answers anything else; -1 where it does.
int64_t only_answer(const ClassScores& scores) {
  int64_t answer = -1;
  for (size_t i = 0; i < scores.classes.size(); ++i) {
    if (scores.classes[i].predicted > 0) {
      if (answer >= 0) {
        return -1;
      }
      answer = static_cast<int64_t>(i);
    }
  }
  return answer;
}

/// Whether the examples are of more than one class: else a single answer is no fault.
bool has_several_classes(const ClassScores& scores) {
  return std::count_if(scores.classes.begin(), scores.classes.end(),
                       [](const ClassScore& each) { return each.support > 0; }) > 1;
}

std::vector<size_t> by_support(const ClassScores& scores) {
  std::vector<size_t> order(scores.classes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() > kMostRows) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return scores.classes[a].support > scores.classes[b].support;
    });
    order.resize(kMostRows);
  }
  return order;
}

}  // namespace

std::string class_table(const std::vector<std::string>& labels, const ClassScores& scores) {
  check(labels.size() == scores.classes.size(), "class table", "{} labels for {} classes",
        labels.size(), scores.classes.size());
  const std::vector<size_t> order = by_support(scores);
  int width = display_width(tell("class"));
  for (const size_t i : order) {
    width = std::max(width, display_width(printable(labels[i])));
  }
  width = std::min(width, kMostLabel);
  std::string text = fit(tell("class"), width, Align::left);
  for (const std::string& heading :
       {tell("precision"), tell("recall"), std::string("F1"), tell("examples")}) {
    text += " " + fit(heading, 10, Align::right);
  }
  text += "\n";
  for (const size_t i : order) {
    const ClassScore& score = scores.classes[i];
    text += fit(printable(labels[i]), width, Align::left);
    text += fmt::format(" {:>10.4f} {:>10.4f} {:>10.4f} {:>10}\n", score.precision, score.recall,
                        score.f1, score.support);
  }
  if (order.size() < labels.size()) {
    text += tell("and {} more classes", labels.size() - order.size()) + "\n";
  }
  if (const int64_t only = only_answer(scores); only >= 0 && has_several_classes(scores)) {
    text += tell(
                "The model always answers '{}': it has learned which class is frequent, not how to "
                "tell them apart.",
                printable(labels[static_cast<size_t>(only)])) +
            "\n";
  }
  return text;
}

bool has_confusion_map(const ClassScores& scores) {
  return !scores.confusion.empty() && scores.confusion.size() <= kMostDrawn;
}

Heatmap confusion_map(const std::vector<std::string>& labels, const ClassScores& scores) {
  check(has_confusion_map(scores) && labels.size() == scores.confusion.size(), "confusion matrix",
        "{} labels for {} classes", labels.size(), scores.confusion.size());
  const auto classes = static_cast<int64_t>(labels.size());
  Heatmap map;
  map.title = tell("Confusion matrix");
  map.row_title = tell("True class");
  map.column_title = tell("Predicted class");
  map.value_title = tell("Fraction of the row");
  map.language = message_language();
  map.scale = ColorScale::linear;
  map.low = 0.0;
  map.high = 1.0;
  map.row_labels = map.column_labels = labels;
  HeatmapPanel panel;
  panel.values = Tensor::zeros({classes, classes});
  for (int64_t r = 0; r < classes; ++r) {
    const std::vector<int64_t>& row = scores.confusion[static_cast<size_t>(r)];
    const int64_t sum = std::max<int64_t>(std::accumulate(row.begin(), row.end(), int64_t{0}), 1);
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t count = row[static_cast<size_t>(c)];
      panel.values.data<float>()[r * classes + c] =
          static_cast<float>(static_cast<double>(count) / static_cast<double>(sum));
      panel.texts.push_back(std::to_string(count));
    }
  }
  map.panels.push_back(std::move(panel));
  return map;
}

}  // namespace heed
