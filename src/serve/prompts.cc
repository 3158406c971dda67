#include "serve/text_run.h"

namespace heed::serve {

void read_prompts(const Call& call, GenerationPlan& plan, std::vector<std::string>* texts) {
  const Json prompt = call.body->at("prompt");
  const auto bad = [] {
    throw BadRequest("'prompt' must be a string, a list of strings or a list of token ids",
                     "prompt");
  };
  const int64_t most_id = call.model->model->vocab_size() - 1;
  const auto add_text = [&](const std::string& text) {
    plan.prompts.push_back(prompt_tokens(*call.model, text, true));
    if (texts != nullptr) {
      texts->push_back(text);
    }
  };
  const auto add_ids = [&](const Json& ids) {
    std::vector<int64_t> tokens;
    for (const Json& id : ids.elements()) {
      if (!id.is_integer() || !(id.number() >= 0 && id.number() <= static_cast<double>(most_id))) {
        throw BadRequest("'prompt' holds a token id that the model does not have", "prompt");
      }
      tokens.push_back(id.integer());
    }
    if (texts != nullptr) {
      texts->push_back(call.model->tokenizer.decode(tokens));
    }
    plan.prompts.push_back(std::move(tokens));
  };
  if (prompt.is_string()) {
    add_text(prompt.string());
  } else if (prompt.is_array() && prompt.size() > 0 && prompt[0].is_number()) {
    add_ids(prompt);
  } else if (prompt.is_array()) {
    for (const Json& item : prompt.elements()) {
      item.is_string() ? add_text(item.string()) : item.is_array() ? add_ids(item) : bad();
    }
  } else {
    bad();
  }
  for (const auto& tokens : plan.prompts) {
    if (tokens.empty()) {
      throw BadRequest("'prompt' is empty, and the model has no token to begin with", "prompt");
    }
  }
  if (plan.prompts.empty()) {
    throw BadRequest("'prompt' is an empty list", "prompt");
  }
}

}  // namespace heed::serve
