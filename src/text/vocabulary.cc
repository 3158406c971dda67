#include "text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace heed::text {

namespace {
int64_t largest_id(size_t tokens) { return 2 * static_cast<int64_t>(tokens) + 255; }
}  // namespace

void check_token_length(std::string_view token, size_t most, std::string_view file) {
  check_data(token.size() <= most, file, "token {} has {} bytes; at most {} are supported",
             quote(token, 40), token.size(), most);
}

int32_t read_id(const Json& value, size_t tokens) {
  return static_cast<int32_t>(value.integer(0, largest_id(tokens)));
}

Vocabulary Vocabulary::from_json(const Json& object) {
  std::vector<std::pair<int32_t, const std::string*>> entries;
  int64_t size = 0;
  object.for_each([&](const std::string& token, const Json& value) {
    entries.emplace_back(read_id(value, object.size()), &token);
    size = std::max<int64_t>(size, entries.back().first + 1);
  });
  Vocabulary vocabulary;
  vocabulary.tokens_.resize(static_cast<size_t>(size));
  vocabulary.present_.resize(static_cast<size_t>(size));
  for (const auto& [id, token] : entries) {
    const auto i = static_cast<size_t>(id);
    if (vocabulary.present_[i]) {
      object.refuse(fmt::format("gives tokens {} and {} the same id {}",
                                quote(vocabulary.tokens_[i]), quote(*token), id));
    }
    vocabulary.tokens_[i] = *token;
    vocabulary.present_[i] = true;
  }
  vocabulary.index();
  return vocabulary;
}

std::optional<Vocabulary> Vocabulary::from_members(
    std::vector<std::pair<std::string, int32_t>> members) {
  int64_t size = 0;
  for (const auto& [token, id] : members) {
    if (id < 0 || id > largest_id(members.size())) {
      return std::nullopt;
    }
    size = std::max<int64_t>(size, int64_t{id} + 1);
  }
  Vocabulary vocabulary;
  vocabulary.tokens_.resize(static_cast<size_t>(size));
  vocabulary.present_.resize(static_cast<size_t>(size));
  for (std::pair<std::string, int32_t>& member : members) {
    const auto id = static_cast<size_t>(member.second);
    vocabulary.tokens_[id] = std::move(member.first);
    vocabulary.present_[id] = true;
  }
  vocabulary.index();
  // An id or a token that came twice makes fewer of them.
  return vocabulary.ids_.size() == members.size() ? std::optional(std::move(vocabulary))
                                                  : std::nullopt;
}

Vocabulary Vocabulary::from_list(std::vector<std::string> tokens) {
  Vocabulary vocabulary;
  vocabulary.tokens_ = std::move(tokens);
  vocabulary.present_.assign(vocabulary.tokens_.size(), true);
  vocabulary.index();
  return vocabulary;
}

void Vocabulary::index() {
  ids_.reserve(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (present_[i]) {
      ids_.insert_or_assign(tokens_[i], static_cast<int32_t>(i));
    }
  }
}

}  // namespace heed::text
