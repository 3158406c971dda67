#include <algorithm>

#include "base/check.h"
#include "train/task.h"
#include "train/task_config.h"

namespace heed {
namespace {

constexpr int64_t kMostPassages = 256;

int64_t most_passages(const std::vector<FidExample>& examples, const std::string& data) {
  size_t most = 0;
  for (const FidExample& example : examples) {
    most = std::max(most, example.passages.size());
  }
  check_data(most >= 1 && most <= kMostPassages, data,
             "has up to {} passages per question; 1 to {} are expected", most, kMostPassages);
  return static_cast<int64_t>(most);
}

}  // namespace

/// Fusion-in-Decoder: passages are encoded one by one, the decoder reads all of them. --context is
/// the most tokens of a passage.
Task make_fid_task(const TrainOptions& o) {
  const std::string arch = chosen_arch(o, "t5");
  const std::vector<FidExample> examples = read_fid(o.data);
  const int64_t passages = most_passages(examples, o.data);
  std::vector<std::string> texts;
  for (const FidExample& example : examples) {
    texts.push_back(example.target);
    for (const TextPair& passage : example.passages) {
      texts.push_back(fid_text(example.question, passage.source, passage.target));
    }
  }
  Task task;
  task.metric = TaskMetric::captions;  // exact match of what is generated
  task.tokenizer = choose_tokenizer(o, "bpe:8192", texts);
  Config config = fresh_config(o, arch, task.tokenizer.vocab_size());
  config.set("decoder_vocab_size", task.tokenizer.vocab_size());
  config.set("share_encoder_decoder_embeddings", true);
  add_token_ids(config, sequence_tokens(task.tokenizer));
  task.model = start_model(o, config);
  check_data(task.model->kind() == ModelKind::encoder_decoder, o.from, "a {} does not do task fid",
             task.model->model_type());
  const SequenceTokens tokens = sequence_tokens(task.tokenizer, *task.model);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    return make_fid_loader(own_set ? read_fid(o.validation) : examples, passages, task.tokenizer,
                           tokens, loader);
  });
  if (task.validation) {
    for (const FidExample& example : o.validation.empty() ? examples : read_fid(o.validation)) {
      task.texts.push_back({example.question, example.target});
    }
  }
  return task;
}

}  // namespace heed
