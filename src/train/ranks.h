#pragma once

#include <exception>

#include "dist/communicator.h"
#include "heed/io.h"
#include "train/run_folder.h"
#include "train/task.h"

namespace heed {

/// Before any work: every rank must run the same program with the same options. Gives each rank
/// its threads, and warns where there are more of them than cores.
void meet(Communicator& ranks, const TrainOptions& options);
/// make_task() with the tokenising shared out.
Task make_task_together(Communicator& ranks, const TrainOptions& options);
/// After the data was read: it must be the same everywhere, with an example a rank and step.
void check_same_data(Communicator& ranks, const Task& task, const TrainOptions& options);

/// What rank 0 restored, to all ranks: nobody else needs to see the run folder.
void broadcast_run(Communicator& ranks, const Model& model, RunState& state);
void broadcast_tensors(Communicator& ranks, TensorMap& tensors);

/// Says what happened on which rank and ends all of them: the others would wait for this one.
[[noreturn]] void abort_all(Communicator& ranks, const std::exception& error, int exit_code);

}  // namespace heed
