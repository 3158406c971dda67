#pragma once

#include <string>

#include "train/task.h"

namespace heed {

/// What a run will need, in bytes.
struct MemoryPlan {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;    ///< moments, and the average of the weights where there is one
  int64_t activations = 0;  ///< of the largest micro-batch, and what works on them
  int64_t peak = 0;         ///< of all at once
  int64_t rows = 0;         ///< examples of that micro-batch
};

/// Weights, gradients and moments are counted; activations are measured on a few rows of the
/// largest of the first batches and scaled to all its tokens. Random numbers and gradients are left
/// as they were.
MemoryPlan plan_memory(const Task& task, const TrainOptions& options);

/// Bytes that this process may still take: what the machine has left, or its control group.
int64_t available_memory();

/// "memory: about 1.2 GB (weights 40 MB, …)"
std::string describe(const MemoryPlan& plan);

/// An error that says what to change where the run will not fit.
void check_memory(const MemoryPlan& plan, const TrainOptions& options, int64_t available);

/// The same before a fresh model is made, by its sizes alone: what cannot even hold its weights.
void check_model_fits(const TrainOptions& options, int64_t vocabulary);

}  // namespace heed
