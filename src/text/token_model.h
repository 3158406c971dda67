#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/vocabulary.h"

namespace heed::text {

/// A token of a piece: bytes [begin, end) of the piece.
struct ModelToken {
  int32_t id;
  uint32_t begin;
  uint32_t end;
};

/// Memory that a model reuses from piece to piece; one per thread.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;
};

/// Turns one piece of text into tokens.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<ModelScratch> make_scratch() const { return nullptr; }
  virtual void tokenize(std::string_view piece, ModelScratch* scratch,
                        std::vector<ModelToken>& out) const = 0;
  /// A string before which a text may be cut, where something else comes before it that does not
  /// end in a byte that joins it, without any change of the tokens; empty: there is none.
  virtual std::string_view border() const { return {}; }
  virtual bool joins_border(char) const { return false; }
  /// Whether a token with this id shows the text it stands for, as Unigram's unknown pieces do.
  virtual bool is_unknown(int32_t) const { return false; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

/// From tokenizer.json's "model". `raw_bytes`: pieces are bytes, the vocabulary is in GPT-2's
/// writing of them.
std::unique_ptr<Model> make_model(const Json& json, bool raw_bytes);
std::unique_ptr<Model> make_wordpiece(const Json& json);
std::unique_ptr<Model> make_unigram(const Json& json);
std::unique_ptr<Model> make_wordlevel(const Json& json);

/// The ids of <0x00> … <0xFF>, -1 where absent.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace heed::text
