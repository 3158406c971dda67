#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"
#include "text/spm.h"
#include "text/tokenizer_impl.h"
#include "text/trie.h"

namespace heed::text {
namespace {

constexpr uint64_t kLargestModel = uint64_t{256} << 20;

/// Reads protobuf's wire format field by field.
class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& file) : rest_(bytes), file_(file) {}

  /// Moves to the next field; false at the end.
  bool next() {
    if (rest_.empty()) {
      return false;
    }
    const uint64_t tag = varint();
    field_ = tag >> 3;
    switch (tag & 7) {
      case 0:
        number_ = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5: {
        const std::string_view four = take(4);
        uint32_t bits = 0;
        std::memcpy(&bits, four.data(), sizeof bits);
        number_ = bits;
        break;
      }
      default:
        fail(ErrorKind::data, file_, "is no SentencePiece model (wire type {})", tag & 7);
    }
    return true;
  }
  uint64_t field() const { return field_; }
  std::string_view bytes() const { return bytes_; }
  int32_t integer() const { return static_cast<int32_t>(number_); }
  bool flag() const { return number_ != 0; }
  float real() const {
    const auto bits = static_cast<uint32_t>(number_);
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    fail(ErrorKind::data, file_, "is no SentencePiece model (a number without end)");
  }
  std::string_view take(uint64_t count) {
    check_data(count <= rest_.size(), file_,
               "is no SentencePiece model: a field has {} bytes, {} are left", count, rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  const std::string& file_;
  uint64_t field_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

SpmVocabulary::Piece read_piece(std::string_view bytes, const std::string& file) {
  SpmVocabulary::Piece piece;
  for (WireReader reader(bytes, file); reader.next();) {
    if (reader.field() == 1) {
      piece.text = reader.bytes();
    } else if (reader.field() == 2) {
      piece.score = reader.real();
    } else if (reader.field() == 3) {
      check_data(reader.integer() >= 1 && reader.integer() <= 6, file, "a piece has the type {}",
                 reader.integer());
      piece.type = static_cast<SpmVocabulary::Type>(reader.integer());
    }
  }
  check_token_length(piece.text, Trie::kLongestKey, file);
  check_data(std::isfinite(piece.score), file, "piece {} has no number as its score",
             quote(piece.text));
  check_data(is_valid_utf8(piece.text), file, "piece {} is not UTF-8", quote(piece.text));
  return piece;
}

/// unk, bos, eos and pad as the trainer was told; -1 means there is none.
struct TrainedIds {
  int32_t unk = 0, bos = 1, eos = 2, pad = -1;
};

TrainedIds read_trainer(std::string_view bytes, SpmVocabulary& v) {
  constexpr int32_t kUnigram = 1;
  constexpr int32_t kBpe = 2;
  int32_t type = kUnigram;
  TrainedIds ids;
  for (WireReader reader(bytes, v.file); reader.next();) {
    switch (reader.field()) {
      case 3:
        type = reader.integer();
        break;
      case 35:
        v.byte_fallback = reader.flag();
        break;
      case 40:
        ids.unk = reader.integer();
        break;
      case 41:
        ids.bos = reader.integer();
        break;
      case 42:
        ids.eos = reader.integer();
        break;
      case 43:
        ids.pad = reader.integer();
        break;
      default:
        break;
    }
  }
  check_data(type == kUnigram || type == kBpe, v.file,
             "is a SentencePiece model of type {}; Unigram (1) and BPE (2) are known", type);
  v.unigram = type == kUnigram;
  return ids;
}

void read_normalizer(std::string_view bytes, SpmVocabulary& v) {
  for (WireReader reader(bytes, v.file); reader.next();) {
    if (reader.field() == 2) {
      v.charsmap = reader.bytes();
      check_charsmap(v.charsmap, v.file);
    } else if (reader.field() == 3) {
      v.prefix_space = reader.flag();
    } else if (reader.field() == 4) {
      v.squeeze_spaces = reader.flag();
    }
  }
}

class SentencePiece final : public ForeignTokenizer {
 public:
  SentencePiece(std::string_view bytes, std::string file, std::vector<std::string> added)
      : file_(std::move(file)), added_(std::move(added)) {
    try {
      const auto status = processor_.LoadFromSerializedProto({bytes.data(), bytes.size()});
      check_data(status.ok(), file_, "is refused by SentencePiece: {}", status.ToString());
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {  // of its trie, for pieces that are no keys
      fail(ErrorKind::data, file_, "is refused by SentencePiece: its pieces make no dictionary");
    }
  }

  void tokenize(std::string_view text, int64_t base, const TokenList& out) const override {
    if (out.offsets == nullptr) {
      std::vector<int> ids;
      const auto status = processor_.Encode({text.data(), text.size()}, &ids);
      check_data(status.ok(), file_, "SentencePiece cannot encode the text: {}", status.ToString());
      out.ids.insert(out.ids.end(), ids.begin(), ids.end());
      return;
    }
    const auto pieces = processor_.EncodeAsImmutableProto({text.data(), text.size()});
    for (size_t i = 0; i < pieces.pieces_size(); ++i) {
      const auto piece = pieces.pieces(static_cast<int>(i));
      if (out.unknown != nullptr && processor_.IsUnknown(static_cast<int>(piece.id()))) {
        out.unknown->emplace_back(out.ids.size(), piece.piece());
      }
      out.ids.push_back(static_cast<int32_t>(piece.id()));
      out.offsets->push_back({base + piece.begin(), base + piece.end()});
    }
  }

  std::string decode(std::span<const TokenId> ids) const override {
    const auto own = static_cast<TokenId>(processor_.GetPieceSize());
    std::string text;
    while (!ids.empty()) {  // what stands between added tokens, then the next of these
      const auto end = std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id >= own; });
      const auto count = static_cast<size_t>(end - ids.begin());
      text += text.empty() || count == 0 ? "" : " ";
      text += decode_own(ids.first(count));
      ids = ids.subspan(count);
      if (!ids.empty()) {
        text += (text.empty() ? "" : " ") + added_.at(static_cast<size_t>(ids.front() - own));
        ids = ids.subspan(1);
      }
    }
    return text;
  }

 private:
  std::string decode_own(std::span<const TokenId> ids) const {
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    check_data(status.ok(), file_, "SentencePiece cannot decode the ids: {}", status.ToString());
    return text;
  }

  std::string file_;
  std::vector<std::string> added_;  ///< tokens behind the file's own
  sentencepiece::SentencePieceProcessor processor_;
};

std::optional<int32_t> special_piece(const SpmVocabulary& v, std::string_view text) {
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    const SpmVocabulary::Piece& piece = v.pieces[i];
    if (piece.text == text && piece.type != SpmVocabulary::Type::normal) {
      return static_cast<int32_t>(i);
    }
  }
  return std::nullopt;
}

/// Tokens that a model's folder adds behind those of the .model file (DeBERTa v3's [MASK]):
/// added_tokens.json beside it. Gives them back.
std::vector<std::string> append_added_tokens(SpmVocabulary& v,
                                             const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "added_tokens.json";
  std::vector<std::string> appended;
  if (!std::filesystem::exists(path)) {
    return appended;
  }
  std::map<int64_t, std::string> added;
  Json::read(path).for_each([&](const std::string& token, const Json& id) {
    added.emplace(id.integer(0, int64_t{1} << 30), token);
  });
  for (const auto& [id, token] : added) {
    const auto count = static_cast<int64_t>(v.pieces.size());
    check_data(id <= count, path.native(), "gives '{}' the id {}; the next free one is {}", token,
               id, count);
    if (id == count) {
      v.pieces.push_back({token, 0.0f, SpmVocabulary::Type::user_defined});  // found in a text
      appended.push_back(token);
    }
  }
  return appended;
}

/// What goes around a text, where the model's folder says it or as models of the kind have it.
void choose_special(SpmVocabulary& v, const Json* config) {
  v.cls = special_piece(v, "[CLS]");  // KoBERT, ALBERT, DeBERTa v3
  v.sep = special_piece(v, "[SEP]");
  const std::string kind = config != nullptr ? config->string_or("tokenizer_class", "") : "";
  v.add_bos = v.bos.has_value() && !kind.starts_with("T5") && !kind.starts_with("MT5");
  v.add_eos = !v.add_bos && v.eos.has_value();
  if (config != nullptr) {
    v.add_bos = config->boolean_or("add_bos_token", v.add_bos);
    v.add_eos = config->boolean_or("add_eos_token", v.add_eos);
  }
}

/// Refuses the .model files of models that number their tokens in another way than the file.
void check_numbering(const std::filesystem::path& path, const Json& config) {
  const std::string kind = config.string_or("tokenizer_class", "");
  bool own = path.filename() == "sentencepiece.bpe.model";
  for (const std::string_view family :
       {"XLMRoberta", "Camembert", "MBart", "M2M100", "Nllb", "Pegasus"}) {
    own = own || kind.starts_with(family);
  }
  check_data(!own, path.native(),
             "numbers its tokens in another way than its model does; write a tokenizer.json beside "
             "it: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers");
}

}  // namespace

SpmVocabulary read_sentencepiece(std::string_view bytes, const std::string& file) {
  SpmVocabulary v;
  v.file = file;
  v.unigram = true;
  v.squeeze_spaces = true;
  TrainedIds ids;
  for (WireReader reader(bytes, file); reader.next();) {
    if (reader.field() == 1) {
      v.pieces.push_back(read_piece(reader.bytes(), file));
    } else if (reader.field() == 2) {
      ids = read_trainer(reader.bytes(), v);
    } else if (reader.field() == 3) {
      read_normalizer(reader.bytes(), v);
    } else if (reader.field() == 5) {  // for decoding, which heed's own tokenizer does not need
      SpmVocabulary other;
      other.file = file;
      read_normalizer(reader.bytes(), other);
    }
  }
  check_data(!v.pieces.empty(), file, "is no SentencePiece model: it has no pieces");
  const auto given = [&](int32_t id) {
    const bool there = id >= 0 && id < static_cast<int64_t>(v.pieces.size());
    return there ? std::optional(id) : std::nullopt;
  };
  v.unk = given(ids.unk);
  v.bos = given(ids.bos);
  v.eos = given(ids.eos);
  v.pad = given(ids.pad);
  return v;
}

std::unique_ptr<ForeignTokenizer> make_sentencepiece(std::string_view bytes,
                                                     const std::string& file,
                                                     std::vector<std::string> added) {
  return std::make_unique<SentencePiece>(bytes, file, std::move(added));
}

std::shared_ptr<TokenizerImpl> load_sentencepiece(const std::filesystem::path& path,
                                                  const Json* config) {
  const std::string bytes = read_file(path, kLargestModel);
  SpmVocabulary v = read_sentencepiece(bytes, path.native());
  std::vector<std::string> added;
  if (config != nullptr) {
    check_numbering(path, *config);
    added = append_added_tokens(v, path.parent_path());
  }
  choose_special(v, config);
  auto foreign = make_sentencepiece(bytes, path.native(), std::move(added));
  auto impl = build_spm(v);
  impl->foreign = std::move(foreign);
  return impl;
}

}  // namespace heed::text
