#pragma once

#include <memory>
#include <vector>

#include "io/json.h"
#include "text/aligned.h"

namespace heed::text {

/// Cuts a text into words that the model never joins.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Replaces every piece by its parts. May rewrite the text (Metaspace, ByteLevel).
  virtual void apply(AlignedText& text, std::vector<Piece>& pieces) const = 0;
};

/// What a BPE model on raw bytes can do without the pre-tokenizer's help.
struct ByteLevelPlan {
  bool raw_bytes = false;  ///< the last step is ByteLevel: the model reads the bytes themselves
  bool gpt2_only = false;  ///< it is the only step, with GPT-2's pattern
  bool add_prefix_space = false;
};

/// From a tokenizer.json object. `plan` (may be null) asks for ByteLevel steps at the end to leave
/// the bytes as they are, and is told whether that happened.
std::unique_ptr<PreTokenizer> make_pretokenizer(const Json& json, ByteLevelPlan* plan);

}  // namespace heed::text
