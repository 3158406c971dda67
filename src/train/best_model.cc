#include "train/best_model.h"

#include <cmath>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "train/lora.h"
#include "train/ranks.h"
#include "train/snapshot.h"

namespace heed {

void BestModel::evaluate_now() {
  if (!task_.validation) {
    try {
      samples_ = make_samples(*task_.model, task_, options_, sample_seed());
      log_.samples(state_.step, samples_);
    } catch (const Error& error) {  // logits that are not finite; the next steps tell
      log_.say(tell("no sample at step {}: {}", state_.step, error.what()));
    }
  } else {
    Evaluation found = evaluate(*task_.model, task_, options_, options_.eval_texts, sample_seed());
    const bool tie = state_.best_step > 0 && found.score == state_.best_score;
    const bool better = state_.best_step == 0 || found.score > state_.best_score ||
                        (tie && found.loss < state_.best);
    const bool best = std::isfinite(found.loss) && better;
    ++state_.stale;
    if (best) {
      state_.best = found.loss;
      state_.best_score = found.score;
      state_.best_step = state_.step;
      state_.stale = 0;
      best_ = found;
      save();
    }
    log_.evaluation(state_.step, found, !best ? "" : tie ? "loss" : options_.best_by, false);
    samples_ = std::move(found.samples);
  }
  if (options_.probes > 0 && folder_.writes()) {
    save_snapshot(
        *task_.model, task_, options_, state_.step,
        folder_.path() / "snapshots" / fmt::format("step-{:06}.safetensors", state_.step));
  }
}

void BestModel::save() const {
  if (!folder_.writes()) {
    return;
  }
  const std::filesystem::path folder = folder_.path() / "model";
  save_trained(*task_.model, folder, options_);
  if (task_.tokenizer) {
    task_.tokenizer.save(folder);
  }
  if (!task_.preprocessor.empty()) {
    write_file_atomically(folder / "preprocessor_config.json", task_.preprocessor);
  }
}

void BestModel::evaluate_kept(TrainResult& result) {
  const bool generates = task_.metric == TaskMetric::translation ||
                         task_.metric == TaskMetric::captions || task_.metric == TaskMetric::speech;
  const bool whole =
      !generates || options_.eval_texts == 0 || options_.eval_texts >= task_.validation->examples();
  if (!whole || best_.loss != state_.best) {  // looked at in part, or before the run went on
    const std::unique_ptr<Model> kept =
        ranks_.size() == 1 ? load_model(folder_.path() / "model") : kept_everywhere();
    best_ = evaluate(kept ? *kept : *task_.model, task_, options_, 0, sample_seed());
  }
  result.metrics = best_.metrics;
  result.classes = best_.classes;
  result.labels = task_.labels;
  log_.evaluation(state_.step, best_, options_.best_by, true);
}

/// The model folder's model on all ranks, which evaluate it together; null where its adapter has
/// gone into the run's own model.
std::unique_ptr<Model> BestModel::kept_everywhere() const {
  TensorMap tensors;
  if (folder_.writes()) {
    tensors = load_trained(*task_.model, folder_.path() / "model");
  }
  broadcast_tensors(ranks_, tensors);
  if (!task_.model->adapted_layers().empty()) {
    set_trained(*task_.model, tensors);
    return nullptr;
  }
  return build_model(task_.model->config(), std::move(tensors), "model");
}

}  // namespace heed
