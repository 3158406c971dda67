#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "heed/text.h"
#include "io/json.h"

namespace heed::text {

/// A SentencePiece vocabulary, whatever file it came in. Spaces are written ▁.
struct SpmVocabulary {
  enum class Type : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  std::string file;
  std::vector<Piece> pieces;
  bool unigram = false;  ///< else BPE by score
  bool byte_fallback = false;
  bool prefix_space = true;
  bool squeeze_spaces = false;  ///< runs of spaces become one, and none is left at the ends
  std::string charsmap;         ///< SentencePiece's table of replacements, as it lies in its file
  std::optional<int32_t> unk, bos, eos, pad;
  bool add_bos = false, add_eos = false;
  std::optional<int32_t> cls, sep;  ///< around a text as BERT has them, in place of bos and eos
  bool special_in_text = false;     ///< control tokens that are written out in a text count as such
};

/// The tokenizer.json that Hugging Face makes of it. `with_model` off: without vocabulary.
nlohmann::json spm_document(const SpmVocabulary& vocabulary, bool with_model);
/// A tokenizer on heed's own engine.
std::shared_ptr<TokenizerImpl> build_spm(const SpmVocabulary& vocabulary);

/// The parts of a SentencePiece .model file (protobuf) that matter.
SpmVocabulary read_sentencepiece(std::string_view bytes, const std::string& file);

class ForeignTokenizer;
/// A .model file's bytes as libsentencepiece reads them; `added` are tokens behind its own.
std::unique_ptr<ForeignTokenizer> make_sentencepiece(std::string_view bytes,
                                                     const std::string& file,
                                                     std::vector<std::string> added = {});

/// A .model file: libsentencepiece does the work. `config`: tokenizer_config.json beside it.
std::shared_ptr<TokenizerImpl> load_sentencepiece(const std::filesystem::path& path,
                                                  const Json* config);
/// A translation folder with source.spm, target.spm and vocab.json.
std::shared_ptr<TokenizerImpl> load_marian(const std::filesystem::path& folder);
std::shared_ptr<TokenizerImpl> load_llama2c(const std::filesystem::path& path);
std::shared_ptr<TokenizerImpl> load_gguf(const std::filesystem::path& path);

}  // namespace heed::text
