#include <fmt/format.h>

#include "serve/chat_prompt.h"
#include "serve/handlers.h"

namespace heed::serve {

void answer_tokenize(const CallPtr& call) {
  const Tokenizer& tokenizer = call->model->tokenizer;
  const std::string content = call->text("content");
  const bool special = call->flag("add_special");
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  if (call->flag("with_pieces")) {
    for (const TokenId id : tokenizer.encode_ids(content, special)) {
      json.begin_object().field("id", id).field("piece", tokenizer.id_to_token(id)).end_object();
    }
  } else {
    for (const TokenId id : tokenizer.encode_ids(content, special)) {
      json.value(id);
    }
  }
  call->reply(json.end_array().end_object().take());
}

void answer_detokenize(const CallPtr& call) {
  const Tokenizer& tokenizer = call->model->tokenizer;
  std::vector<TokenId> ids;
  for (const Json& item : call->body->at("tokens").elements()) {
    const auto most = static_cast<double>(tokenizer.vocab_size() - 1);
    if (!item.is_integer() || !(item.number() >= 0 && item.number() <= most)) {
      throw BadRequest(
          fmt::format("'tokens' must hold token ids from 0 to {}", tokenizer.vocab_size() - 1),
          "tokens");
    }
    ids.push_back(item.integer());
  }
  JsonWriter json;
  json.begin_object().field("content", tokenizer.decode(ids, false));
  call->reply(json.end_object().take());
}

void answer_apply_template(const CallPtr& call) {
  check_messages(call->body->at("messages"));
  JsonWriter json;
  json.begin_object().field("prompt", rendered_prompt(*call, true).text);
  call->reply(json.end_object().take());
}

void answer_input_tokens(const CallPtr& call) {
  check_messages(call->body->at("messages"));
  const auto count = chat_tokens(*call->model, rendered_prompt(*call, true).text).size();
  JsonWriter json;
  json.begin_object().field("object", "chat.completions.input_tokens");
  call->reply(json.field("input_tokens", count).end_object().take());
}

}  // namespace heed::serve
