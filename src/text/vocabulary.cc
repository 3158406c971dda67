#include "text/vocabulary.h"

#include <algorithm>

namespace heed::text {

void check_id(const Json& value, size_t tokens, std::string_view file, const std::string& field) {
  check_data(value.is_number_integer(), file, "{} has id {}, which is not an integer", field,
             value.dump());
  check_data(value.is_number_unsigned() || value.get<int64_t>() >= 0, file, "{} has id {}", field,
             value.dump());
  const uint64_t limit = 2 * static_cast<uint64_t>(tokens) + 256;
  check_data(value.get<uint64_t>() < limit, file,
             "{} has id {}, which is out of range for a vocabulary of {} tokens", field,
             value.dump(), tokens);
}

Vocabulary Vocabulary::from_json(const Json& object, std::string_view file,
                                 std::string_view field) {
  check_data(object.is_object(), file, "{} is not an object of token: id", field);
  Vocabulary vocabulary;
  int64_t size = 0;
  for (const auto& [token, id] : object.items()) {
    check_id(id, object.size(), file, fmt::format("{}: token '{}'", field, token));
    size = std::max(size, id.get<int64_t>() + 1);
  }
  vocabulary.tokens_.resize(static_cast<size_t>(size));
  vocabulary.present_.resize(static_cast<size_t>(size));
  for (const auto& [token, id] : object.items()) {
    const auto i = id.get<size_t>();
    check_data(!vocabulary.present_[i], file, "{}: tokens '{}' and '{}' have the same id {}", field,
               vocabulary.tokens_[i], token, i);
    vocabulary.tokens_[i] = token;
    vocabulary.present_[i] = true;
  }
  vocabulary.index();
  return vocabulary;
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
