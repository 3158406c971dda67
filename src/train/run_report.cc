#include "train/run_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/check.h"
#include "base/language.h"
#include "heed/io.h"
#include "train/class_report.h"

namespace heed {
namespace {

constexpr size_t kMostPoints = 1000;
constexpr size_t kFewSteps = 5;  // below which curves say nothing

/// Means of neighbours, so that at most `most` points are left.
void thin_out(std::vector<double>& x, std::vector<double>& y, size_t most) {
  const size_t group = (x.size() + most - 1) / most;
  if (group <= 1) {
    return;
  }
  size_t kept = 0;
  for (size_t begin = 0; begin < x.size(); begin += group, ++kept) {
    const size_t end = std::min(begin + group, x.size());
    double sum = 0.0;
    for (size_t i = begin; i < end; ++i) {
      sum += y[i];
    }
    x[kept] = x[end - 1];
    y[kept] = sum / static_cast<double>(end - begin);
  }
  x.resize(kept);
  y.resize(kept);
}

double mean(const std::vector<double>& values, size_t begin, size_t end) {
  double sum = 0.0;
  for (size_t i = begin; i < end; ++i) {
    sum += values[i];
  }
  return sum / static_cast<double>(std::max<size_t>(end - begin, 1));
}

/// The training loss at the end of the run: the mean of its last tenth.
double last_loss(const LossCurves& curves) {
  const size_t count = curves.train.size();
  return mean(curves.train, count - std::max<size_t>(count / 10, 1), count);
}

double first_loss(const LossCurves& curves) {
  return mean(curves.train, 0, std::max<size_t>(curves.train.size() / 10, 1));
}

}  // namespace

LossCurves read_loss_curves(const std::filesystem::path& metrics) {
  LossCurves curves;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const Json entry = Json::parse(line, metrics.native());
    const double step = entry.number_or("step", 0.0, 0.0, 1e15);
    const auto loss = entry.find(entry.find("val_loss") ? "val_loss" : "loss");
    if (!loss || !loss->is_number() || entry.boolean_or("final", false)) {
      continue;
    }
    const double value = loss->number();
    if (!entry.find("val_loss")) {
      curves.steps.push_back(step);
      curves.train.push_back(value);
      continue;
    }
    curves.validation_steps.push_back(step);
    curves.validation.push_back(value);
    if (entry.boolean_or("best", false)) {
      curves.best_validation = value;
      curves.best_step = static_cast<int64_t>(step);
    }
  }
  thin_out(curves.steps, curves.train, kMostPoints);
  thin_out(curves.validation_steps, curves.validation, kMostPoints);
  return curves;
}

std::string curves_verdict(const LossCurves& curves) {
  constexpr double kRise = 1.03;   // of the validation loss over its lowest
  constexpr double kGap = 1.3;     // of the validation loss over the training loss
  constexpr double kStill = 0.97;  // of the validation loss over the last third
  constexpr double kSolved = 1e-3;
  if (curves.train.size() < kFewSteps) {
    return {};
  }
  const double train = last_loss(curves);
  if (train >= first_loss(curves)) {
    return tell(
        "The training loss did not fall ({:.3g} to {:.3g}): try a lower learning rate, or look at "
        "the "
        "data.",
        first_loss(curves), train);
  }
  if (curves.validation.size() < 3) {
    return {};
  }
  const auto lowest = std::min_element(curves.validation.begin(), curves.validation.end());
  const auto at = static_cast<size_t>(lowest - curves.validation.begin());
  const double last = curves.validation.back();
  if (std::max(train, last) < first_loss(curves) * kSolved) {
    return tell(
        "Both losses fell below a thousandth of what they were (training {:.3g}, validation "
        "{:.3g}): there is little left to learn.",
        train, last);
  }
  const bool stays_above = at + 2 < curves.validation.size();  // one worse evaluation may be noise
  if (stays_above && last > *lowest * kRise && train < last) {
    return tell(
        "Overfitting: the training loss fell to {:.3g}, but the validation loss rose from "
        "{:.3g} at step {:.0f} to {:.3g}. Try more data, a smaller model, more dropout or "
        "weight decay, fewer steps, or a patience of 3.",
        train, *lowest, curves.validation_steps[at], last);
  }
  const double third = curves.validation[curves.validation.size() * 2 / 3 - 1];
  if (last < third * kStill) {
    return tell(
        "The validation loss was still falling ({:.3g}): more steps or epochs are likely "
        "to help.",
        last);
  }
  if (last > train * kGap && last - train > 0.05) {
    return tell(
        "The model knows its training data (loss {:.3g}) much better than new data ({:.3g}): "
        "more data or more dropout are likely to help.",
        train, last);
  }
  return tell(
      "Both curves have levelled off (training {:.3g}, validation {:.3g}): a larger model or "
      "more data would be the next thing to try.",
      train, last);
}

LinePlot loss_plot(const LossCurves& curves) {
  LinePlot plot;
  plot.title = tell("Loss");
  plot.x_title = tell("Step");
  plot.y_title = tell("Loss");
  plot.series.push_back({tell("training"), curves.steps, curves.train});
  if (!curves.validation.empty()) {
    plot.series.push_back({tell("validation"), curves.validation_steps, curves.validation});
  }
  return plot;
}

std::string report_run(const std::filesystem::path& folder, const TrainResult& result) {
  const LossCurves curves = read_loss_curves(folder / "metrics.jsonl");
  if (curves.train.size() < 2) {
    return {};
  }
  const LinePlot plot = loss_plot(curves);
  save_picture(folder / "loss.svg", plot);
  if (has_confusion_map(result.classes)) {
    save_picture(folder / "confusion.svg", confusion_map(result.labels, result.classes));
  }
  std::string text;
  if (curves.train.size() >= kFewSteps) {
    text = to_terminal(plot);
  }
  const std::string verdict = curves_verdict(curves);
  return verdict.empty() ? text : text + verdict + "\n";
}

}  // namespace heed
