#include "text/pattern.h"

namespace heed::text {

Pattern::Pattern(const Json& json) {
  const Json pattern = json.at("pattern");
  if (pattern.is_string()) {
    literal_ = pattern.string();
  } else if (pattern.has("Regex")) {
    regex_.emplace(pattern.string("Regex"), json.file());
  } else {
    literal_ = pattern.string("String");
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
