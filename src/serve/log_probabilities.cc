#include "serve/log_probabilities.h"

#include <cmath>

namespace heed::serve {
namespace {

void write_token(JsonWriter& json, const LoadedModel& model, int64_t id, double log_probability) {
  const std::string text = token_text(model, id);
  json.field("token", text).field("logprob", log_probability).key("bytes").begin_array();
  for (const char byte : text) {
    json.value(static_cast<int>(static_cast<unsigned char>(byte)));
  }
  json.end_array();
}

}  // namespace

void write_chat_log_probabilities(JsonWriter& json, const LoadedModel& model,
                                  const TextChoice& choice, size_t from, size_t to) {
  json.begin_object().key("content").begin_array();
  for (size_t i = from; i < to; ++i) {
    const TokenRecord& token = choice.tokens[i];
    json.begin_object();
    write_token(json, model, token.id, token.log_probability);
    json.key("top_logprobs").begin_array();
    for (const auto& [id, log_probability] : token.top) {
      json.begin_object();
      write_token(json, model, id, log_probability);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
}

void write_completion_log_probabilities(JsonWriter& json, const LoadedModel& model,
                                        const TextChoice& choice, size_t from, size_t to,
                                        size_t offset) {
  std::vector<std::string> tokens;
  std::vector<double> values;
  std::vector<size_t> offsets;
  for (size_t i = from; i < to; ++i) {
    tokens.push_back(token_text(model, choice.tokens[i].id));
    values.push_back(choice.tokens[i].log_probability);
    offsets.push_back(offset);
    offset += tokens.back().size();
  }
  json.begin_object().field("tokens", tokens).field("token_logprobs", values);
  json.key("top_logprobs").begin_array();
  for (size_t i = from; i < to; ++i) {
    json.begin_object();
    for (const auto& [id, log_probability] : choice.tokens[i].top) {
      json.field(token_text(model, id), log_probability);
    }
    json.end_object();
  }
  json.end_array().field("text_offset", offsets).end_object();
}

void write_llama_probabilities(JsonWriter& json, const LoadedModel& model, const TextChoice& choice,
                               size_t from, size_t to, bool probabilities) {
  const auto write = [&](int64_t id, double log_probability) {
    const std::string text = token_text(model, id);
    json.begin_object().field("id", id).field("token", text).key("bytes").begin_array();
    for (const char byte : text) {
      json.value(static_cast<int>(static_cast<unsigned char>(byte)));
    }
    json.end_array().field(probabilities ? "prob" : "logprob",
                           probabilities ? std::exp(log_probability) : log_probability);
  };
  for (size_t i = from; i < to; ++i) {
    const TokenRecord& token = choice.tokens[i];
    write(token.id, token.log_probability);
    json.key(probabilities ? "top_probs" : "top_logprobs").begin_array();
    for (const auto& [id, log_probability] : token.top) {
      write(id, log_probability);
      json.end_object();
    }
    json.end_array().end_object();
  }
}

}  // namespace heed::serve
