#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/json.h"

namespace heed::text {

/// Real vocabularies have tokens of up to some hundred bytes. A file with longer ones could make
/// a few ids stand for any amount of text.
constexpr size_t kLongestToken = 4096;

/// Refuses a token of more than `most` bytes, of a vocabulary in `file`.
void check_token_length(std::string_view token, size_t most, std::string_view file);

/// Tokens by id and ids by token. Ids may have gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  /// From {"token": id}. Negative, duplicate and far-off ids are errors.
  static Vocabulary from_json(const Json& object);
  /// The same from a list; nothing where an id or a token is in error.
  static std::optional<Vocabulary> from_members(
      std::vector<std::pair<std::string, int32_t>> members);
  /// Ids are the positions in the list; where a token is there twice, the last one counts.
  static Vocabulary from_list(std::vector<std::string> tokens);

  /// One more than the largest id.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  std::optional<int32_t> find(std::string_view token) const {
    const auto it = ids_.find(token);
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }
  /// Empty for an id without a token.
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  /// Tokens with their ids.
  const std::unordered_map<std::string_view, int32_t>& ids() const { return ids_; }

 private:
  void index();

  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

/// An id of a vocabulary with about so many tokens: negative and far-off ones are refused.
int32_t read_id(const Json& value, size_t tokens);

}  // namespace heed::text
