#include "generate/prefill.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "heed/io.h"
#include "models/files.h"

namespace heed {
namespace {
constexpr int64_t kMaxToken = int64_t{1} << 32;

bool has_encoder(const Model& model) {
  return model.kind() == ModelKind::encoder_decoder || model.kind() == ModelKind::vision_decoder ||
         model.kind() == ModelKind::speech_decoder;
}
}  // namespace

GenerationTokens generation_tokens(const Model& model) {
  const Json& config = model.config();
  GenerationTokens ids;
  const int64_t limit = std::max<int64_t>(model.vocab_size(), 1) - 1;
  auto in_vocabulary = [&](int64_t id) { return id <= limit ? id : -1; };
  // A vision-encoder-decoder keeps its decoder's ids one level down, a RAG its generator's.
  Json decoder = config;
  bool nested = false;
  for (const char* part : {"decoder", "generator"}) {
    if (const auto found = config.find(part); found && found->is_object()) {
      decoder = *found;
      nested = true;
    }
  }
  const auto own = generation_rules(config);
  auto find = [&](std::string_view key) {
    auto found = own ? own->find(key) : std::nullopt;
    found = found ? found : config.find(key);
    return found ? found : decoder.find(key);
  };
  if (const auto end = find("eos_token_id")) {
    ids.end =
        end->is_array() ? end->integers(-1, kMaxToken) : std::vector{end->integer(-1, kMaxToken)};
    // Small models keep the numbers of the vocabulary they were cut from: nothing ends there.
    std::erase_if(ids.end, [&](int64_t id) { return id < 0 || id > limit; });
  }
  if (const auto start = find("decoder_start_token_id")) {
    ids.decoder_start = start->integer(0, limit);
  } else if (const auto begin = find("bos_token_id")) {
    ids.decoder_start = in_vocabulary(begin->integer(-1, kMaxToken));
  }
  if (const auto pad = find("pad_token_id")) {
    ids.pad = in_vocabulary(pad->integer(-1, kMaxToken));
  }
  const Json rules = own.value_or(config);
  if (const auto words = rules.find("bad_words_ids"); words && words->is_array()) {
    for (const Json& word : words->elements()) {
      const std::vector<int64_t> tokens = word.integers(0, kMaxToken);
      if (tokens.size() == 1 && tokens[0] <= limit) {
        ids.suppress_tokens.push_back(tokens[0]);
      }
    }
  }
  auto forced = [&](std::string_view key) {
    auto found = rules.find(key);
    if (!found && nested) {
      found = decoder.find(key);
    }
    return found && found->is_integer() ? in_vocabulary(found->integer(-1, kMaxToken)) : -1;
  };
  ids.forced_eos_token_id = forced("forced_eos_token_id");
  ids.forced_bos_token_id = forced("forced_bos_token_id");
  return ids;
}

void apply_generation_tokens(const Model& model, Request& request) {
  GenerationTokens ids = generation_tokens(model);
  request.end = std::move(ids.end);
  request.suppress_tokens = std::move(ids.suppress_tokens);
  request.forced_eos_token_id = ids.forced_eos_token_id;
  request.forced_bos_token_id = ids.forced_bos_token_id;
}

std::vector<int64_t> start_tokens(const Model& model, const Request& request) {
  std::vector<int64_t> tokens = request.prompt;
  if (has_encoder(model)) {
    const int64_t start = request.decoder_start_token_id >= 0
                              ? request.decoder_start_token_id
                              : generation_tokens(model).decoder_start;
    check_data(start >= 0, "config.json", "has no decoder_start_token_id to begin a sequence with");
    tokens.insert(tokens.begin(), start);
  }
  check(!tokens.empty(), "generate", "the prompt is empty");
  return tokens;
}

EncoderOutput encode_request(const Model& model, const Request& request) {
  const NoGrad no_grad;
  return has_encoder(model) ? model.encode(request.encoder) : EncoderOutput();
}

int64_t prefill_chunk(const Model& model) {
  const KvWindow& window = model.kv_window();
  return window.on() ? std::clamp<int64_t>(window.recent / 4, 1, kPrefillChunk) : kPrefillChunk;
}

Tensor read_parts(const Model& model, const std::vector<PromptPart>& parts) {
  const NoGrad no_grad;
  std::vector<int64_t> tokens;
  std::vector<int64_t> lengths;
  Pass pass;
  for (const PromptPart& part : parts) {
    tokens.insert(tokens.end(), part.tokens->begin() + part.begin, part.tokens->begin() + part.end);
    lengths.push_back(part.end - part.begin);
    pass.caches.push_back(part.cache);
  }
  pass.layout = Layout::ragged(lengths);
  for (const PromptPart& part : parts) {  // rotary angles may depend on the whole prompt's length
    pass.layout.ends.push_back(static_cast<int64_t>(part.tokens->size()));
  }
  if (const EncoderOutput& memory = *parts[0].memory; memory.rows.defined()) {
    check(parts.size() == 1, "generate", "{} prompts of an encoder-decoder in one pass",
          parts.size());
    pass.encoder_hidden_states = &memory.rows;
    pass.encoder_layout = &memory.layout;
  }
  return model.decode(Tensor::from(tokens, {pass.layout.rows()}), pass);
}

Tensor start_sequence(const Model& model, const Request& request,
                      const std::vector<int64_t>& tokens, int64_t capacity, SequenceCache& cache) {
  const NoGrad no_grad;
  const auto count = static_cast<int64_t>(tokens.size());
  check(model.decoder_context_length() == 0 || count <= model.decoder_context_length(), "generate",
        "the prompt has {} tokens; the model's context is {}", count,
        model.decoder_context_length());
  cache = model.new_cache(capacity);
  const EncoderOutput memory = encode_request(model, request);
  Tensor rows;
  const int64_t chunk = prefill_chunk(model);
  for (int64_t begin = 0; begin < count; begin += chunk) {
    rows = read_tokens(model, tokens, begin, std::min(count, begin + chunk), memory, cache);
  }
  return model.logits(slice(rows, 0, rows.size(0) - 1, rows.size(0)));
}

int64_t forced_token(const Request& request, int64_t step, int64_t limit) {
  if (step + 1 == limit && request.forced_eos_token_id >= 0) {
    return request.forced_eos_token_id;
  }
  return step == 0 && request.prompt.empty() ? request.forced_bos_token_id : -1;
}

void restrict_choice(float* values, int64_t vocabulary, const Request& request, int64_t forced) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (const int64_t id : request.suppress_tokens) {
    values[id] = kNever;
  }
  if (forced >= 0) {
    std::fill(values, values + vocabulary, kNever);
    values[forced] = 0.0F;
  }
}

Tensor continue_sequences(const Model& model, const std::vector<int64_t>& tokens,
                          std::vector<SequenceCache*> caches) {
  const NoGrad no_grad;
  const auto count = static_cast<int64_t>(tokens.size());
  Pass pass;
  pass.layout = Layout::ragged(std::vector<int64_t>(tokens.size(), 1));
  pass.caches = std::move(caches);
  return model.logits(model.decode(Tensor::from(tokens, {count}), pass));
}

Tensor extend_sequences(const Model& model, const std::vector<std::vector<int64_t>>& tokens,
                        std::vector<SequenceCache*> caches) {
  const NoGrad no_grad;
  std::vector<int64_t> all;
  std::vector<int64_t> lengths;
  for (const std::vector<int64_t>& each : tokens) {
    all.insert(all.end(), each.begin(), each.end());
    lengths.push_back(static_cast<int64_t>(each.size()));
  }
  Pass pass;
  pass.layout = Layout::ragged(lengths);
  pass.caches = std::move(caches);
  return model.logits(model.decode(Tensor::from(all, {pass.layout.rows()}), pass));
}

}  // namespace heed
