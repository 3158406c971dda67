#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/text.h"

namespace heed {

/// The bytes of all tokens, in the order of a walk that visits a node before its children: behind a
/// node come its children, unless it is skipped.
class TokenTrie {
 public:
  explicit TokenTrie(std::vector<std::string> token_bytes);

  struct Node {
    uint32_t skip;   ///< index of the first node that is no descendant
    uint32_t begin;  ///< of its tokens in ids()
    uint16_t depth;  ///< 1: the first byte
    uint16_t count;  ///< tokens that end here: mostly one or none
    uint8_t byte;
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int32_t>& ids() const { return ids_; }
  /// Empty for special tokens and ids without a token.
  const std::string& bytes(int64_t id) const { return bytes_[static_cast<size_t>(id)]; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  uint16_t longest() const { return longest_; }

 private:
  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;
  uint16_t longest_ = 0;
};

}  // namespace heed
