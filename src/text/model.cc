#include "text/model.h"

#include "text/bpe.h"

namespace heed::text {

std::unique_ptr<Model> make_model(const Fields& fields, bool raw_bytes) {
  std::string type = fields.text("type", "");
  if (type.empty()) {  // older files leave it out
    type = fields.find("merges") != nullptr                      ? "BPE"
           : fields.find("continuing_subword_prefix") != nullptr ? "WordPiece"
           : fields.need("vocab").is_array()                     ? "Unigram"
                                                                 : "WordLevel";
  }
  if (type == "BPE") {
    return make_bpe(fields, raw_bytes);
  }
  if (type == "WordPiece") {
    return make_wordpiece(fields);
  }
  if (type == "Unigram") {
    return make_unigram(fields);
  }
  if (type == "WordLevel") {
    return make_wordlevel(fields);
  }
  fail(ErrorKind::data, fields.file(),
       "{} '{}' is not known (BPE, WordPiece, Unigram and WordLevel are)", fields.path("type"),
       type);
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
