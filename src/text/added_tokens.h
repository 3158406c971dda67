#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned.h"
#include "text/trie.h"

namespace heed::text {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = true;  ///< looked for in the normalized text, not in the original
  bool single_word = false;
  bool left_strip = false;  ///< takes the spaces before it along
  bool right_strip = false;
  bool in_text = true;  ///< looked for in texts at all
};

/// Finds added tokens in a text.
class AddedTokenFinder {
 public:
  /// `key`: what to look for, which differs from the content where it is normalized.
  void add(const AddedToken& token, std::string_view key);
  bool empty() const { return tokens_.empty(); }

  struct Found {
    size_t begin, end;
    int32_t id;
  };
  /// The next one at or after `from`, longest first; false where there is none. `from` is also how
  /// far back stripping may reach.
  bool next(std::string_view text, size_t from, Found& found) const;

 private:
  struct Rule {
    int32_t id;
    bool single_word, left_strip, right_strip;
  };
  std::vector<Rule> tokens_;
  Trie trie_;
  std::array<bool, 256> starts_{};
  std::string start_bytes_;
};

}  // namespace heed::text
