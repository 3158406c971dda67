#include <fmt/format.h>

#include <charconv>
#include <random>

#include "serve/constraint.h"
#include "serve/service.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

constexpr double kMostBias = 100.0;

using Biases = std::vector<std::pair<int64_t, float>>;

/// Adds the bias of one token, which is named by its id or by its text: all tokens of a text then.
void add_bias(const Call& call, const std::string& name, bool is_text, double bias,
              Biases& biases) {
  const bool texts_allowed = call.route.path.find("/v1/") != 0;  // OpenAI's API has ids only
  int64_t id = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  const bool number = error == std::errc() && end == name.data() + name.size();
  if (!texts_allowed || (number && !is_text)) {
    if (!number || id < 0 || id >= call.model->model->vocab_size()) {
      throw BadRequest("'logit_bias' has a key that is no token id of the model", "logit_bias");
    }
    biases.emplace_back(id, static_cast<float>(bias));
    return;
  }
  for (const TokenId each : call.model->tokenizer.encode_ids(name, false)) {
    biases.emplace_back(each, static_cast<float>(bias));
  }
}

double bias_value(const Json& value) {
  if (value.is_boolean() && !value.boolean()) {
    return -1e9;  // llama.cpp's server: never
  }
  if (!value.is_number() || !(std::abs(value.number()) <= kMostBias)) {
    throw BadRequest(
        fmt::format("'logit_bias' must hold numbers from {} to {}", -kMostBias, kMostBias),
        "logit_bias");
  }
  return value.number();
}

/// {"token id": bias}; llama.cpp's server also takes [[token id or text, bias], …] and texts.
Biases read_logit_bias(const Call& call) {
  constexpr size_t kMost = 1024;
  const Json given = call.body->at("logit_bias");
  Biases biases;
  if (given.is_object()) {
    given.for_each([&](const std::string& key, const Json& value) {
      add_bias(call, key, false, bias_value(value), biases);
    });
    return biases;
  }
  const auto bad = [] {
    throw BadRequest("'logit_bias' must be an object, or a list of pairs of a token and a number",
                     "logit_bias");
  };
  if (!given.is_array() || given.size() > kMost) {
    bad();
  }
  for (const Json& pair : given.elements()) {
    if (!pair.is_array() || pair.size() != 2 || !(pair[0].is_string() || pair[0].is_integer())) {
      bad();
    }
    const bool text = pair[0].is_string();
    add_bias(call, text ? pair[0].string() : std::to_string(pair[0].integer()), text,
             bias_value(pair[1]), biases);
  }
  return biases;
}

std::vector<int64_t> read_token_ids(const Call& call, const std::string& name) {
  std::vector<int64_t> ids;
  if (call.has(name)) {
    for (const Json& id : call.body->at(name).elements()) {
      const auto most = static_cast<double>(call.model->model->vocab_size() - 1);
      if (!id.is_integer() || !(id.number() >= 0 && id.number() <= most)) {
        throw BadRequest(fmt::format("'{}' holds something that is no token id of the model", name),
                         name);
      }
      ids.push_back(id.integer());
    }
  }
  return ids;
}

Sampling read_sampling(const Call& call) {
  constexpr double kLeast = 1e-9;  // top_p 0 means the best token
  Sampling sampling;
  sampling.temperature = call.number("temperature");
  sampling.top_n_sigma = call.number("top_n_sigma");
  sampling.top_k = call.integer("top_k");
  sampling.top_p = std::max(call.number("top_p"), kLeast);
  sampling.min_p = call.number("min_p");
  sampling.typical_p = std::max(call.number("typical_p"), kLeast);
  sampling.mirostat = call.integer("mirostat");
  sampling.mirostat_tau = call.number("mirostat_tau");
  sampling.mirostat_eta = call.number("mirostat_eta");
  if (sampling.mirostat == 1) {
    throw BadRequest("'mirostat' must be 0 (off) or 2", "mirostat");
  }
  sampling.repetition_penalty = call.number("repetition_penalty");
  sampling.frequency_penalty = call.number("frequency_penalty");
  sampling.presence_penalty = call.number("presence_penalty");
  sampling.no_repeat_ngram_size = call.integer("no_repeat_ngram_size");
  if (call.has("logit_bias")) {
    sampling.logit_bias = read_logit_bias(call);
  }
  sampling.dry_multiplier = call.number("dry_multiplier");
  sampling.dry_base = call.number("dry_base");
  sampling.dry_allowed_length = call.integer("dry_allowed_length");
  sampling.dry_range = call.integer("dry_penalty_last_n");
  if (sampling.dry_multiplier > 0.0) {
    sampling.dry_breakers =
        tokens_containing(call.model->tokenizer, call.has("dry_sequence_breakers")
                                                     ? call.texts("dry_sequence_breakers")
                                                     : default_dry_breakers());
  }
  const int64_t seed = call.has("seed") ? call.integer("seed") : -1;
  sampling.seed =
      seed != -1 ? static_cast<uint64_t>(seed) : (uint64_t{std::random_device()()} << 16);
  return sampling;
}

}  // namespace

GenerationPlan common_plan(const Call& call, const std::string& length_field) {
  constexpr int64_t kUnlimited = 1 << 20;
  GenerationPlan plan;
  plan.max_tokens = call.integer(length_field);
  if (plan.max_tokens < 0 || (!call.has(length_field) && plan.max_tokens == 0)) {
    // As many as the context holds; of a model without a limit, a generous number.
    plan.max_tokens = call.model->context_length() > 0 ? call.model->context_length() : kUnlimited;
  }
  if (const int64_t most = call.service.max_tokens(); most > 0) {
    plan.max_tokens = std::min(plan.max_tokens, most);
  }
  plan.stops = call.texts("stop");
  plan.stream = call.flag("stream");
  plan.stop_token_ids = read_token_ids(call, "stop_token_ids");
  plan.sampling = read_sampling(call);
  plan.constraint = read_constraint(call);
  return plan;
}

}  // namespace heed::serve
