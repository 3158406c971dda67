#include "pipelines/speech_decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "generate/prefill.h"
#include "heed/io.h"
#include "kernels/softmax.h"
#include "models/files.h"
#include "pipelines/batches.h"

namespace heed {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// "en" of "<|en|>"; empty for other tokens.
std::string language_of(std::string_view token) {
  const bool marked = token.starts_with("<|") && token.ends_with("|>") && token.size() > 4;
  return marked ? std::string(token.substr(2, token.size() - 4)) : std::string();
}

std::vector<int64_t> ids_of(const Json& rules, std::string_view key, int64_t vocabulary) {
  std::vector<int64_t> ids;
  if (const auto found = rules.find(key); found && found->is_array()) {
    for (const int64_t id : found->integers(-1, int64_t{1} << 32)) {
      if (id >= 0 && id < vocabulary) {
        ids.push_back(id);
      }
    }
  }
  return ids;
}

void read_alignment_heads(const Json& rules, const Model& model, SpeechTokens& tokens) {
  const auto heads = rules.find("alignment_heads");
  if (heads && heads->is_array()) {
    for (const Json& each : heads->elements()) {
      const std::vector<int64_t> pair = each.integers(0, 4096);
      check_data(pair.size() == 2, rules.file(),
                 "alignment_heads must hold pairs of layer and head");
      tokens.alignment_heads.emplace_back(pair[0], pair[1]);
    }
  }
  if (tokens.alignment_heads.empty()) {
    const int64_t layers = model.config().integer("decoder_layers", 1, 4096);
    for (int64_t layer = layers / 2; layer < layers; ++layer) {
      for (int64_t head = 0; head < model.num_heads(); ++head) {
        tokens.alignment_heads.emplace_back(layer, head);
      }
    }
  }
}

}  // namespace

SpeechTokens speech_tokens(const LoadedModel& loaded) {
  const Model& model = *loaded.model;
  const Json& config = model.config();
  const Json rules = generation_rules(config).value_or(config);
  auto id_of = [&](std::string_view token) -> int64_t {
    return loaded.tokenizer.token_to_id(token).value_or(-1);
  };
  SpeechTokens tokens;
  const GenerationTokens ids = generation_tokens(model);
  tokens.start = ids.decoder_start;
  check_data(!ids.end.empty(), "config.json", "has no eos_token_id to end a transcript with");
  tokens.end = ids.end.front();
  tokens.no_timestamps =
      rules.integer_or("no_timestamps_token_id", id_of("<|notimestamps|>"), -1, int64_t{1} << 32);
  check_data(tokens.start >= 0 && tokens.no_timestamps >= 0 &&
                 tokens.timestamp_begin() < model.vocab_size(),
             loaded.path.native(),
             "has no <|startoftranscript|> or no <|notimestamps|>, which Whisper needs");
  tokens.no_speech = tokens.no_timestamps - 1;
  tokens.previous = id_of("<|startofprev|>");
  for (const char* task : {"transcribe", "translate"}) {
    if (const int64_t id = id_of(fmt::format("<|{}|>", task)); id >= 0) {
      tokens.tasks[task] = id;
    }
  }
  const bool multilingual = rules.boolean_or("is_multilingual", model.vocab_size() >= 51865);
  const int64_t behind = std::min(id_of("<|translate|>"), id_of("<|transcribe|>"));
  for (int64_t id = tokens.start + 1; multilingual && id < behind; ++id) {
    const std::string name = language_of(loaded.tokenizer.id_to_token(id));
    if (!name.empty()) {
      tokens.languages[name] = id;
    }
  }
  tokens.suppressed = ids_of(rules, "suppress_tokens", model.vocab_size());
  tokens.suppressed_at_begin = ids_of(rules, "begin_suppress_tokens", model.vocab_size());
  tokens.max_initial_timestamp = rules.integer_or("max_initial_timestamp_index", 50, 0, 1500);
  read_alignment_heads(rules, model, tokens);
  return tokens;
}

std::vector<int64_t> start_of_transcript(const SpeechTokens& tokens, const std::string& language,
                                         const std::string& task) {
  std::vector<int64_t> ids{tokens.start};
  if (!tokens.languages.empty()) {
    ids.push_back(tokens.languages.at(language));
    const auto found = tokens.tasks.find(task);
    check(found != tokens.tasks.end(), "transcribe", "this model has no task '{}'", task);
    ids.push_back(found->second);
  }
  return ids;
}

std::pair<std::string, double> detect_language(const Model& model, const SpeechTokens& tokens,
                                               const EncoderOutput& encoded) {
  SequenceCache cache = model.new_cache(1);
  const Tensor logits = model.logits(read_tokens(model, {tokens.start}, 0, 1, encoded, cache));
  const float* values = logits.data<float>();
  std::pair<std::string, double> best{"en", 1.0};
  double largest = -std::numeric_limits<double>::infinity();
  for (const auto& [name, id] : tokens.languages) {
    if (values[id] > largest) {
      largest = values[id];
      best.first = name;
    }
  }
  double sum = 0.0;
  for (const auto& [name, id] : tokens.languages) {
    sum += std::exp(values[id] - largest);
  }
  best.second = tokens.languages.empty() ? 1.0 : 1.0 / sum;
  return best;
}

void apply_timestamp_rules(std::span<float> logits, const std::vector<int64_t>& ids,
                           const SpeechTokens& tokens) {
  const auto begin = static_cast<size_t>(tokens.timestamp_begin());
  auto forbid = [&](size_t from, size_t to) {
    std::fill(logits.begin() + static_cast<std::ptrdiff_t>(std::min(from, logits.size())),
              logits.begin() + static_cast<std::ptrdiff_t>(std::min(to, logits.size())), kNever);
  };
  auto is_time = [&](int64_t id) { return id >= tokens.timestamp_begin(); };
  forbid(begin - 1, begin);  // <|notimestamps|>
  const bool last = !ids.empty() && is_time(ids.back());
  const bool before = ids.size() < 2 || is_time(ids[ids.size() - 2]);
  if (last && before) {
    forbid(begin, logits.size());
  } else if (last) {
    forbid(0, static_cast<size_t>(tokens.end));
  }
  const auto latest = std::find_if(ids.rbegin(), ids.rend(), is_time);
  if (latest != ids.rend()) {
    forbid(begin, static_cast<size_t>(*latest + (last && !before ? 0 : 1)));
  }
  if (ids.empty()) {
    forbid(0, begin);
    if (tokens.max_initial_timestamp >= 0) {
      forbid(begin + static_cast<size_t>(tokens.max_initial_timestamp) + 1, logits.size());
    }
    return;
  }
  const auto times = static_cast<int64_t>(logits.size() - begin);
  const double all_times = kernels::log_sum_exp(logits.data() + begin, times);
  if (all_times >
      *std::max_element(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(begin))) {
    forbid(0, begin);
  }
}

SpeechWindow decode_window(const Model& model, const SpeechTokens& tokens,
                           const EncoderOutput& encoded, const std::vector<int64_t>& prompt) {
  const auto count = static_cast<int64_t>(prompt.size());
  const int64_t most = std::min(model.context_length() / 2, model.context_length() - count);
  check(most > 0, "transcribe", "{} tokens of context leave no room for text", count);
  SequenceCache cache = model.new_cache(count + most);
  const Tensor rows = read_tokens(model, prompt, 0, count, encoded, cache);
  SpeechWindow window;
  {
    const auto start = std::find(prompt.rbegin(), prompt.rend(), tokens.start);
    const int64_t place = prompt.rend() - start - 1;
    const Tensor first = model.logits(slice(rows, 0, place, place + 1));
    const float* values = first.data<float>();
    window.no_speech_probability =
        std::exp(values[tokens.no_speech] - kernels::log_sum_exp(values, first.size(1)));
  }
  Tensor logits = model.logits(slice(rows, 0, count - 1, count)).contiguous();
  double sum = 0.0;
  int64_t chosen = 0;
  for (int64_t step = 0; step < most; ++step) {
    std::vector<float> values(logits.data<float>(), logits.data<float>() + logits.size(1));
    for (const int64_t id : tokens.suppressed) {
      values[static_cast<size_t>(id)] = kNever;
    }
    if (window.ids.empty()) {
      for (const int64_t id : tokens.suppressed_at_begin) {
        values[static_cast<size_t>(id)] = kNever;
      }
    }
    apply_timestamp_rules(values, window.ids, tokens);
    chosen = std::max_element(values.begin(), values.end()) - values.begin();
    sum += values[static_cast<size_t>(chosen)] -
           kernels::log_sum_exp(values.data(), static_cast<int64_t>(values.size()));
    check(std::isfinite(sum), "transcribe", "the model's logits are not finite");
    if (chosen == tokens.end) {
      break;
    }
    window.ids.push_back(chosen);
    if (step + 1 < most) {
      logits = continue_sequences(model, {chosen}, {&cache}).contiguous();
    }
  }
  window.log_probability = sum / static_cast<double>(window.ids.size() + 1);
  return window;
}

}  // namespace heed
