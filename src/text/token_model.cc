#include "text/token_model.h"

#include "base/check.h"
#include "text/bpe.h"

namespace heed::text {

std::unique_ptr<Model> make_model(const Json& json, bool raw_bytes) {
  std::string type = json.string_or("type", "");
  if (type.empty()) {  // older files leave it out
    type = json.has("merges")                      ? "BPE"
           : json.has("continuing_subword_prefix") ? "WordPiece"
           : json.at("vocab").is_array()           ? "Unigram"
                                                   : "WordLevel";
  }
  if (type == "BPE") {
    return make_bpe(json, raw_bytes);
  }
  if (type == "WordPiece") {
    return make_wordpiece(json);
  }
  if (type == "Unigram") {
    return make_unigram(json);
  }
  if (type == "WordLevel") {
    return make_wordlevel(json);
  }
  json.at("type").refuse("is not known here; BPE, WordPiece, Unigram and WordLevel are");
}

std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids(256, -1);
  for (size_t byte = 0; byte < 256; ++byte) {
    if (const auto id = vocabulary.find(fmt::format("<0x{:02X}>", byte))) {
      ids[byte] = *id;
    }
  }
  return ids;
}

}  // namespace heed::text
