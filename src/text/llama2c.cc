#include <cstring>

#include "base/check.h"
#include "base/file.h"
#include "text/spm.h"
#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

constexpr uint64_t kLargestLlama2c = uint64_t{256} << 20;

/// llama2.c writes plain spaces and frames the two control tokens with line ends.
std::string piece_text(std::string_view bytes, size_t id) {
  if (id == 1 || id == 2) {
    return id == 1 ? "<s>" : "</s>";
  }
  std::string text;
  for (const char c : bytes) {
    text += c == ' ' ? "\xE2\x96\x81" : std::string(1, c);
  }
  return text;
}

SpmVocabulary::Type piece_type(std::string_view text, size_t id) {
  if (id == 0) {
    return SpmVocabulary::Type::unknown;
  }
  if (id <= 2) {
    return SpmVocabulary::Type::control;
  }
  const bool byte = text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
  return byte ? SpmVocabulary::Type::byte : SpmVocabulary::Type::normal;
}

}  // namespace

/// The longest token's length, then score, length and bytes of each token up to the file's end.
std::shared_ptr<TokenizerImpl> load_llama2c(const std::filesystem::path& path) {
  const std::string& file = path.native();
  const std::string bytes = read_file(path, kLargestLlama2c);
  size_t at = 0;
  const auto take = [&](void* to, size_t count) {
    check_data(count <= bytes.size() - at, file,
               "is no llama2.c tokenizer: it ends inside a token (a model's .bin needs a "
               "tokenizer beside it)");
    std::memcpy(to, bytes.data() + at, count);
    at += count;
  };
  int32_t longest = 0;
  take(&longest, sizeof longest);
  check_data(longest > 0 && longest <= 1 << 16, file,
             "is no llama2.c tokenizer: its longest token has {} bytes", longest);
  SpmVocabulary v;
  v.file = file;
  v.byte_fallback = true;
  while (at < bytes.size()) {
    const size_t id = v.pieces.size();
    SpmVocabulary::Piece piece;
    int32_t length = 0;
    take(&piece.score, sizeof piece.score);
    take(&length, sizeof length);
    check_data(length >= 0 && length <= longest, file,
               "is no llama2.c tokenizer: token {} has {} bytes, the longest {}", id, length,
               longest);
    std::string text(static_cast<size_t>(length), '\0');
    take(text.data(), text.size());
    check_data(piece.score == piece.score, file, "token {} has no number as its score", id);
    piece.text = piece_text(text, id);
    piece.type = piece_type(text, id);
    v.pieces.push_back(std::move(piece));
  }
  check_data(v.pieces.size() >= 3, file, "has only {} tokens; <unk>, <s> and </s> come first",
             v.pieces.size());
  v.unk = 0;
  v.bos = 1;
  v.eos = 2;
  v.add_bos = true;
  return build_spm(v);
}

}  // namespace heed::text
