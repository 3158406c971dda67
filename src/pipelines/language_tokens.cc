#include "pipelines/language_tokens.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace heed {
namespace {

bool all_lower(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::islower(c) != 0; });
}

/// "__en__" (M2M-100), "eng_Latn" (NLLB) or "en_XX" (mBART).
bool names_language(std::string_view token) {
  if (token.starts_with("__") && token.ends_with("__") && token.size() >= 6) {
    return token.size() <= 7 && all_lower(token.substr(2, token.size() - 4));
  }
  const size_t mark = token.find('_');
  if (mark < 2 || mark > 3 || !all_lower(token.substr(0, mark))) {
    return false;
  }
  const std::string_view region = token.substr(mark + 1);
  const auto upper = [](unsigned char c) { return std::isupper(c) != 0; };
  return (region.size() == 2 && std::all_of(region.begin(), region.end(), upper)) ||
         (region.size() == 4 && upper(static_cast<unsigned char>(region[0])) &&
          all_lower(region.substr(1)));
}

bool is_language(const Tokenizer& tokenizer, int64_t id) {
  return id >= 0 && id < tokenizer.vocab_size() &&
         names_language(tokenizer.id_to_token(static_cast<TokenId>(id))) &&
         tokenizer.is_special(static_cast<TokenId>(id));
}

}  // namespace

TokenId language_token(const Tokenizer& tokenizer, const std::string& name, const char* option) {
  for (const std::string& token : {name, "__" + name + "__"}) {
    const auto id = tokenizer.token_to_id(token);
    if (id && is_language(tokenizer, *id)) {
      return *id;
    }
  }
  std::vector<std::string> known;
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (is_language(tokenizer, id)) {
      known.push_back(tokenizer.id_to_token(static_cast<TokenId>(id)));
    }
  }
  if (known.empty()) {
    fail(ErrorKind::usage, option, "this model's tokenizer has no language tokens; leave it out");
  }
  fail(ErrorKind::usage, option, "this model has no language '{}'; it has {}", name,
       fmt::join(known, ", "));
}

void set_source_language(const Tokenizer& tokenizer, TokenId language, std::vector<TokenId>& ids) {
  const auto found =
      std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return is_language(tokenizer, id); });
  if (found != ids.end()) {
    *found = language;
  } else {
    ids.insert(ids.begin(), language);
  }
}

void set_target_language(const Model& model, const Tokenizer& tokenizer, TokenId language,
                         Request& request) {
  if (is_language(tokenizer, generation_tokens(model).decoder_start)) {
    request.decoder_start_token_id = language;
  } else {
    request.forced_bos_token_id = language;
  }
}

}  // namespace heed
