#pragma once

#include <string>
#include <vector>

#include "heed/text.h"
#include "io/json.h"

namespace heed::text {

/// What goes around one or two encoded texts. Every post-processor of tokenizer.json comes down to
/// a template of special tokens and the positions of the texts.
struct PostProcessor {
  struct Item {
    enum class Kind { first, second, special } kind;
    int32_t type_id = 0;
    std::vector<TokenId> ids;  ///< of a special item
  };
  std::vector<Item> single{{Item::Kind::first, 0, {}}};
  std::vector<Item> pair{{Item::Kind::first, 0, {}}, {Item::Kind::second, 1, {}}};
  bool trim_offsets = false;     ///< offsets leave out the spaces of a token
  bool add_prefix_space = true;  ///< the first space of a text may be one that was put before it

  /// Special tokens in the template.
  int64_t count_special(bool with_pair) const;
  /// [before…] text [after…] in the ids-only path.
  void special_around(std::vector<TokenId>& before, std::vector<TokenId>& after) const;
};

PostProcessor make_postprocessor(const Json& json);

/// [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with the second text's type.
PostProcessor bert_postprocessor(int32_t cls, int32_t sep);

/// Cuts one or two encoded texts so that with `special` more tokens they fit.
void truncate(Encoding& first, Encoding* second, int64_t special, const Truncation& options);
void pad(Encoding& encoding, int64_t length, const Padding& options);

}  // namespace heed::text
