#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/json.h"
#include "text/aligned.h"

namespace heed::text {

/// Changes a text before it is cut into words.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// From a tokenizer.json object {"type": …}.
std::unique_ptr<Normalizer> make_normalizer(const Json& json);
/// Refuses a precompiled_charsmap whose trie leads out of it: SentencePiece follows it unchecked.
void check_charsmap(std::string_view blob, std::string_view file);
/// SentencePiece's table of replacements, from its base64 form.
std::unique_ptr<Normalizer> make_precompiled(const std::string& base64, const std::string& file);

/// Writes every invalid byte as U+FFFD.
void sanitize(AlignedText& text);

}  // namespace heed::text
