#include "train/train_defaults.h"

#include <algorithm>

#include "base/check.h"
#include "heed/io.h"
#include "models/files.h"

// What a run gets where nothing was said: by its task, and by the model that it starts from.

namespace heed {
namespace {

constexpr double kFreshRate = 1e-3;
constexpr double kFineTuneRate = 5e-5;
constexpr double kLoraRate = 2e-4;
constexpr double kSmallFineTuneRate = 3e-4;
constexpr int64_t kSmallHiddenSize = 256;

/// The metrics that a task is evaluated by, the default first.
std::vector<std::string> metrics_of(const std::string& task) {
  if (task == "translate") {
    // BLEU is 0 or nearly so until whole phrases are right; chrF tells models apart from the start.
    return {"chrf", "bleu", "exact_match", "loss"};
  }
  if (task == "classify" || task == "image-classify") {
    return {"f1_macro", "accuracy", "f1", "loss"};
  }
  if (task == "transcribe") {
    return {"wer", "exact_match", "loss"};
  }
  if (task == "embed") {
    return {"ndcg_10", "recall_1", "recall_10", "loss"};
  }
  if (task == "caption" || task == "fid") {
    return {"exact_match", "loss"};
  }
  return task == "lm" || task == "mlm" ? std::vector<std::string>{"loss", "perplexity"}
                                       : std::vector<std::string>{"loss"};
}

/// The first of the names that config.json (or its decoder's part) has; `otherwise` for none.
double config_number(const Json& config, std::initializer_list<const char*> names,
                     double otherwise) {
  for (const Json& part : {config, config.find("decoder").value_or(config),
                           config.find("text_config").value_or(config)}) {
    for (const char* name : names) {
      if (const auto found = part.find(name); found && found->is_number()) {
        return found->number();
      }
    }
  }
  return otherwise;
}

int64_t config_size(const Json& config, std::initializer_list<const char*> names,
                    int64_t otherwise) {
  const double value = config_number(config, names, static_cast<double>(otherwise));
  constexpr double kMost = 1e9;
  return value >= 1 && value <= kMost ? static_cast<int64_t>(value) : otherwise;
}

Json config_of(const std::string& from) { return find_model_files(from).config; }

int64_t hidden_size_of(const Json& config, int64_t otherwise) {
  return config_size(config, {"hidden_size", "n_embd", "d_model", "dim"}, otherwise);
}

}  // namespace

double default_learning_rate(const TrainOptions& o) {
  if (o.from.empty()) {
    return kFreshRate;
  }
  if (!o.lora.empty()) {
    return kLoraRate;
  }
  return hidden_size_of(config_of(o.from), kSmallHiddenSize) < kSmallHiddenSize ? kSmallFineTuneRate
                                                                                : kFineTuneRate;
}

std::string default_best_by(const std::string& task) { return metrics_of(task).front(); }

void check_best_by(const TrainOptions& o) {
  const std::vector<std::string> known = metrics_of(o.task);
  if (!o.best_by.empty() && std::find(known.begin(), known.end(), o.best_by) == known.end()) {
    fail(ErrorKind::usage, "best_by", "'{}' is no metric of task {}; use {}", o.best_by, o.task,
         fmt::join(known, ", "));
  }
}

TrainOptions resolve_train_options(TrainOptions o) {
  if (o.lr == 0.0) {
    o.lr = default_learning_rate(o);
  }
  if (o.best_by.empty()) {
    o.best_by = default_best_by(o.task);
  }
  if (o.from.empty()) {
    return o;
  }
  const Json config = config_of(o.from);
  o.layers = config_size(
      config, {"num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "n_layers"},
      o.layers);
  o.heads = config_size(
      config, {"num_attention_heads", "n_head", "num_heads", "encoder_attention_heads", "n_heads"},
      o.heads);
  o.width = hidden_size_of(config, o.width);
  o.ff = config_size(
      config, {"intermediate_size", "n_inner", "d_ff", "encoder_ffn_dim", "ffn_dim", "hidden_dim"},
      4 * o.width);
  o.dropout =
      config_number(config, {"hidden_dropout_prob", "resid_pdrop", "dropout", "dropout_rate"}, 0.0);
  const int64_t context =
      config_size(config, {"max_position_embeddings", "n_positions", "max_seq_len"}, o.context);
  o.context = std::min(o.context, context);
  return o;
}

}  // namespace heed
