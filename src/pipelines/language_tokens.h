#pragma once

#include <string>
#include <vector>

#include "heed/generate.h"
#include "heed/text.h"

namespace heed {

/// The token of a multilingual model's language by its name, with or without the marks around it:
/// "eng_Latn", "en_XX", "en" for "__en__". An error of kind usage names the languages there are;
/// `option` is what it was given by.
TokenId language_token(const Tokenizer& tokenizer, const std::string& name, const char* option);

/// Puts a language in place of the one that the tokenizer wrote, or in front where it wrote none.
void set_source_language(const Tokenizer& tokenizer, TokenId language, std::vector<TokenId>& ids);

/// Makes a request write in a language: its token is what the decoder starts from where the model's
/// own start token is a language (mBART), else the first token that it writes.
void set_target_language(const Model& model, const Tokenizer& tokenizer, TokenId language,
                         Request& request);

}  // namespace heed
