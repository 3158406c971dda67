#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/data.h"
#include "heed/io.h"
#include "heed/text.h"

// Conversations as training data: JSON lines with `messages`, or with `prompt`, `chosen` and
// `rejected`.

namespace heed {

/// A text as tokens, of which some are what a model is to learn.
struct MarkedTokens {
  std::vector<TokenId> ids;
  std::vector<TokenId> learned;  ///< 1: the assistant's, 0: not
};

/// Whether the first line of the first file has `messages`.
bool has_conversations(const std::string& data);

/// Calls `visit` with the object of every line of all files; `where` is "file:line".
void visit_json_lines(const std::string& data,
                      const std::function<void(const Json& row, const std::string& where)>& visit);

/// A conversation (a JSON array of messages) through a model's template. Learned are the
/// assistant's turns with what ends them: the template's {% generation %} blocks where it has any,
/// else what a message adds to the prompt that asks for it. `tools` is a JSON array or empty.
MarkedTokens mark_conversation(const Json& messages, const std::string& tools,
                               const ChatTemplate& tmpl, const Tokenizer& tokenizer,
                               const std::string& where);

/// The template of the model that is fine-tuned. Throws kind data where it has none.
ChatTemplate template_for(const std::string& from, const std::string& data);

/// Rows of marked tokens; labels are -100 where nothing is learned. Rows of like length come
/// together; longer ones lose their end.
std::unique_ptr<Loader> make_marked_loader(const std::vector<MarkedTokens>& rows,
                                           const SequenceTokens& tokens,
                                           const LoaderOptions& options);

}  // namespace heed
