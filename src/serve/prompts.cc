#include "serve/text_run.h"

namespace heed::serve {
namespace {

/// Reads the forms of a prompt. llama.cpp's server also takes texts and ids in one sequence, and
/// {"prompt_string": …}.
class PromptReader {
 public:
  PromptReader(const Call& call, GenerationPlan& plan, std::vector<std::string>* texts)
      : call_(call), plan_(plan), texts_(texts) {}

  void read(const Json& prompt) {
    const bool sequence = prompt.is_array() && prompt.size() > 0 && mixes_ids(prompt);
    if (prompt.is_array() && !sequence) {
      for (const Json& item : prompt.elements()) {
        read_one(item);
      }
    } else {
      read_one(prompt);
    }
  }

 private:
  static bool mixes_ids(const Json& list) {
    bool number = false, nested = false;
    for (const Json& item : list.elements()) {
      number = number || item.is_number();
      nested = nested || item.is_array() || item.is_object();
    }
    return number && !nested;
  }

  [[noreturn]] static void refuse() {
    throw BadRequest("'prompt' must be a string, a list of strings or a list of token ids",
                     "prompt");
  }

  void read_one(const Json& item) {
    if (item.is_string()) {
      add_text(item.string());
    } else if (item.is_array()) {
      add_sequence(item);
    } else if (item.is_object() && item.has("prompt_string") &&
               item.at("prompt_string").is_string()) {
      if (item.has("multimodal_data")) {
        throw BadRequest("'prompt' has images or sound; this model reads text", "prompt");
      }
      add_text(item.string("prompt_string"));
    } else {
      refuse();
    }
  }

  void add_text(const std::string& text) {
    plan_.prompts.push_back(prompt_tokens(*call_.model, text, true));
    if (texts_ != nullptr) {
      texts_->push_back(text);
    }
  }

  /// Ids as they are; a text among them brings the special tokens only where it comes first.
  void add_sequence(const Json& items) {
    const int64_t most = call_.model->model->vocab_size() - 1;
    std::vector<int64_t> tokens;
    for (const Json& item : items.elements()) {
      if (item.is_string()) {
        const auto ids = call_.model->tokenizer.encode_ids(item.string(), tokens.empty());
        tokens.insert(tokens.end(), ids.begin(), ids.end());
        continue;
      }
      if (!item.is_number()) {
        refuse();
      }
      if (!item.is_integer() ||
          !(item.number() >= 0 && item.number() <= static_cast<double>(most))) {
        throw BadRequest("'prompt' holds a token id that the model does not have", "prompt");
      }
      tokens.push_back(item.integer());
    }
    if (texts_ != nullptr) {
      texts_->push_back(call_.model->tokenizer.decode(tokens));
    }
    plan_.prompts.push_back(std::move(tokens));
  }

  const Call& call_;
  GenerationPlan& plan_;
  std::vector<std::string>* texts_;
};

}  // namespace

void read_prompts(const Call& call, GenerationPlan& plan, std::vector<std::string>* texts) {
  PromptReader(call, plan, texts).read(call.body->at("prompt"));
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
