#pragma once

#include <string>
#include <vector>

#include "heed/io.h"
#include "serve/loaded_model.h"
#include "serve/routes.h"

namespace heed::serve {

/// The conversation in `messages` (OpenAI's list) as the text that the model reads, with the
/// beginning of an answer behind it. `tools` and `variables` are JSON; empty: none. Throws
/// BadRequest where the model has no template or it refuses the conversation.
std::string render_chat(const LoadedModel& model, const std::string& messages,
                        const std::string& tools, const std::string& variables,
                        bool add_generation_prompt = true);

/// Checks what the table of routes cannot say of a message: its content is a text or a list of
/// parts of text. Throws BadRequest.
void check_messages(const Json& messages);

/// The conversation of a call with the fields messages, tools, chat_template_kwargs,
/// add_generation_prompt and continue_final_message. Where the last message is the assistant's, the
/// answer continues it. Throws BadRequest.
struct RenderedPrompt {
  std::string text;
  bool continues = false;  ///< a message that has begun
};
RenderedPrompt rendered_prompt(const Call& call, bool with_tools);

/// Tokens of a rendered conversation: the template has written the special tokens itself.
std::vector<int64_t> chat_tokens(const LoadedModel& model, const std::string& prompt);

}  // namespace heed::serve
