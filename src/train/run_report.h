#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "heed/picture.h"
#include "heed/train.h"

namespace heed {

/// The losses of a run by step.
struct LossCurves {
  std::vector<double> steps, train;
  std::vector<double> validation_steps, validation;
  double best_validation = 0.0;  ///< of the model that was kept
  int64_t best_step = 0;         ///< 0: nothing was validated
};

/// Reads metrics.jsonl; long runs are averaged down to at most 1000 points.
LossCurves read_loss_curves(const std::filesystem::path& metrics);

/// What the curves mean and what to try, in a sentence or two; empty for a run of a few steps.
std::string curves_verdict(const LossCurves& curves);

LinePlot loss_plot(const LossCurves& curves);

/// Writes loss.svg, and confusion.svg for a classifier, into the run folder; returns what to show
/// on a terminal: the plot and the verdict.
std::string report_run(const std::filesystem::path& folder, const TrainResult& result);

}  // namespace heed
