#include "text/pattern.h"

namespace heed::text {

Pattern::Pattern(const Fields& fields) {
  const Json& value = fields.need("pattern");
  if (value.is_string()) {
    literal_ = value.get<std::string>();
    return;
  }
  const Fields pattern = fields.object("pattern");
  if (pattern.find("Regex") != nullptr) {
    regex_.emplace(pattern.text("Regex"), fields.file());
  } else {
    literal_ = pattern.text("String");
  }
}

void Pattern::find_all(std::string_view text, std::vector<Piece>& matches) const {
  if (regex_) {
    regex_->find_all(text, matches);
    return;
  }
  if (literal_.empty()) {
    return;
  }
  for (size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    matches.push_back({at, at + literal_.size()});
  }
}

}  // namespace heed::text
