#pragma once

#include <memory>
#include <string>

#include "heed/data.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/train.h"

namespace heed {

/// What a run trains: a model, its tokenizer and its data.
struct Task {
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;  ///< undefined for images' classes and numbers
  std::unique_ptr<Loader> train;
  std::unique_ptr<Loader> validation;  ///< may be null
  bool classifies = false;             ///< validation reports accuracy
};

/// Reads the data, trains the tokenizer where one is to be trained, and makes or loads the model.
Task make_task(const TrainOptions& options);

/// A batch as a model takes it.
ModelInput to_input(const Batch& batch, const TrainOptions& options, bool training);

}  // namespace heed
