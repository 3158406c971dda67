#include "train/snapshot.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "heed/inspect.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "io/json_writer.h"

namespace heed {
namespace {

constexpr int64_t kMostTokens = 48;  // of a probe
constexpr int64_t kMostCells = 64;   // sides of a stored matrix; larger ones are max-pooled

int64_t real_length(const Tensor& ids, const Tensor& mask) {
  int64_t length = ids.size(1);
  if (mask.defined()) {
    const Tensor row = mask.contiguous();
    length = std::count(row.data<int64_t>(), row.data<int64_t>() + row.numel(), 1);
  }
  return std::min(std::max<int64_t>(length, 1), kMostTokens);
}

/// The first positions of a row [1, T].
Tensor beginning(const Tensor& row, int64_t length) {
  return row.defined() ? slice(row, 1, 0, std::min(length, row.size(1))).contiguous() : row;
}

/// One example without padding and at most kMostTokens long.
ModelInput probe_input(const Batch& one, const TrainOptions& options) {
  ModelInput input = to_input(one, options, false);
  input.labels = {};
  if (options.task == "preference") {
    input.decoder_input_ids = {};  // the rejected answer
  }
  if (input.passages > 1) {  // the first of them
    input.input_ids = slice(input.input_ids, 0, 0, 1);
    input.attention_mask = slice(input.attention_mask, 0, 0, 1);
    input.passages = 1;
  }
  if (input.input_ids.defined()) {
    input.input_ids =
        beginning(input.input_ids, real_length(input.input_ids, input.attention_mask));
  }
  if (input.decoder_input_ids.defined()) {
    input.decoder_input_ids =
        beginning(input.decoder_input_ids,
                  real_length(input.decoder_input_ids, input.decoder_attention_mask));
  }
  input.attention_mask = input.decoder_attention_mask = {};
  return input;
}

std::vector<std::string> labels_of(const Tokenizer& tokenizer, const Tensor& ids) {
  std::vector<TokenId> row;
  for (const double id : ids.to_doubles()) {
    row.push_back(id);
  }
  return token_labels(row, tokenizer);
}

/// The numbers [1, N, F] that a regressor reads, one label for each position.
std::vector<std::string> labels_of(const Tensor& numbers) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < numbers.size(1); ++i) {
    labels.push_back(
        fmt::format("{:.4g}", fmt::join(slice(numbers, 1, i, i + 1).to_doubles(), ", ")));
  }
  return labels;
}

std::string tensor_name(int64_t probe, const AttentionPlace& place) {
  return fmt::format("probe.{}.{}attentions.{}", probe,
                     place.kind == "self" ? "" : place.kind + "_", place.layer);
}

/// [heads, rows, columns] of one attention.
Tensor heads_of(const RecordedAttention& attention) {
  std::vector<Tensor> heads;
  for (int64_t head = 0; head < attention.heads(); ++head) {
    const Tensor weights = attention.pooled(0, head, kMostCells, kMostCells);
    heads.push_back(reshape(weights, {1, weights.size(0), weights.size(1)}));
  }
  return concat(heads, 0).to(DType::f16);
}

}  // namespace

void save_snapshot(const Model& model, const Task& task, const TrainOptions& options, int64_t step,
                   const std::filesystem::path& file) {
  const NoGrad no_grad;
  const Loader& set = task.validation ? *task.validation : *task.train;
  const Batch batch = set.batch(0);
  TensorMap tensors;
  JsonWriter probes;
  probes.begin_array();
  for (int64_t probe = 0; probe < std::min(options.probes, batch.rows); ++probe) {
    const ModelInput input = probe_input(batch_rows(batch, probe, probe + 1), options);
    const Recorder recorder;
    model.forward(input);
    probes.begin_object();
    if (input.input_ids.defined() && task.tokenizer) {
      probes.field("tokens", labels_of(task.tokenizer, input.input_ids));
    }
    if (input.decoder_input_ids.defined() && task.tokenizer) {
      probes.field("target_tokens", labels_of(task.tokenizer, input.decoder_input_ids));
    }
    if (model.kind() == ModelKind::regressor) {
      probes.field("tokens", labels_of(input.features));
    }
    probes.end_object();
    for (const RecordedAttention& attention : recorder.attentions()) {
      tensors.emplace(tensor_name(probe, attention.place), heads_of(attention));
    }
  }
  if (tensors.empty()) {
    return;  // a model without attention
  }
  make_folder(file.parent_path());
  save_safetensors(
      file, tensors,
      {{"format", "pt"}, {"step", std::to_string(step)}, {"probes", probes.end_array().text()}});
}

}  // namespace heed
