#include "base/check.h"
#include "heed/io.h"
#include "train/task.h"
#include "train/task_config.h"

namespace heed {
namespace {

/// The tokens behind the start token that say what is to be written: language and task, where the
/// model has several, and that there are no timestamps.
std::vector<TokenId> steering_tokens(const TrainOptions& o, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  const auto language = tokenizer.token_to_id(fmt::format("<|{}|>", o.language));
  const auto task = tokenizer.token_to_id("<|transcribe|>");
  const bool multilingual = tokenizer.token_to_id("<|ko|>").has_value();
  if (multilingual) {
    check_data(language.has_value(), o.from, "has no token for the language '{}'", o.language);
    ids.push_back(*language);
    if (task) {
      ids.push_back(*task);
    }
  }
  if (const auto plain = tokenizer.token_to_id("<|notimestamps|>")) {
    ids.push_back(*plain);
  }
  return ids;
}

/// Texts as the model writes them, with a space in front, behind the steering tokens.
TokenShard spoken_targets(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                          const std::vector<TokenId>& steering) {
  std::vector<std::vector<TokenId>> sequences;
  for (const std::string& text : texts) {
    std::vector<TokenId> ids = steering;
    tokenizer.append_ids(text.starts_with(' ') ? text : " " + text, ids);
    sequences.push_back(std::move(ids));
  }
  return TokenShard::from(sequences);
}

}  // namespace

Task make_speech_task(const TrainOptions& o) {
  if (o.from.empty()) {
    fail(ErrorKind::usage, "from",
         "task transcribe fine-tunes a speech model; name a Whisper folder");
  }
  Task task;
  task.metric = TaskMetric::speech;
  const SpeechData data = load_transcripts(o.data);
  task.tokenizer = choose_tokenizer(o, "bpe:8192", data.texts);
  task.model = start_model(o, Config());
  check_data(task.model->kind() == ModelKind::speech_decoder, o.from,
             "a {} does not do task transcribe", task.model->model_type());
  const Json& config = task.model->config();
  constexpr int64_t kFramesPerPosition = 2;
  const int64_t mels = config.integer_or("num_mel_bins", 80, 1, 1 << 12);
  const int64_t frames =
      kFramesPerPosition * config.integer_or("max_source_positions", 1500, 1, 1 << 20);
  const SequenceTokens tokens = sequence_tokens(task.tokenizer, *task.model);
  const std::vector<TokenId> steering = steering_tokens(o, task.tokenizer);
  task.prompt.assign(steering.begin(), steering.end());
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    const SpeechData set = own_set ? load_transcripts(o.validation) : data;
    const TokenShard texts = spoken_targets(set.texts, task.tokenizer, steering);
    texts.check_vocabulary(task.model->vocab_size(), own_set ? o.validation : o.data);
    if (own_set || (o.validation.empty() && task.texts.empty())) {
      for (size_t i = 0; i < set.texts.size(); ++i) {
        task.texts.push_back({set.files[i].filename().string(), set.texts[i]});
      }
    }
    return make_speech_loader(set, mels, frames, texts, tokens, loader);
  });
  return task;
}

}  // namespace heed
