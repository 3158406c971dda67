#include <algorithm>

#include "heed/generate.h"

namespace heed {

namespace {

/// The last tokens of a prompt: enough for the next one's text.
std::vector<int32_t> last_tokens(std::span<const int64_t> prompt) {
  constexpr size_t kContext = 8;
  const auto last = prompt.last(std::min(prompt.size(), kContext));
  return {last.begin(), last.end()};
}

}  // namespace

TextStream::TextStream(Tokenizer tokenizer, std::vector<std::string> stops,
                       std::span<const int64_t> prompt)
    : decoder_(std::move(tokenizer), true, last_tokens(prompt)), stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

std::string TextStream::push(int64_t id) {
  if (stopped_) {
    return {};
  }
  held_ += decoder_.push(static_cast<int32_t>(id));
  return release(false);
}

std::string TextStream::finish() {
  if (stopped_) {
    return {};
  }
  held_ += decoder_.finish();
  return release(true);
}

std::string TextStream::release(bool all) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
  }
  if (first != std::string::npos) {
    stopped_ = true;
    return held_.substr(0, first);
  }
  size_t keep = 0;  // the longest end of the text that a stop string begins with
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep && !all; --length) {
      if (held_.ends_with(std::string_view(stop).substr(0, length))) {
        keep = length;
      }
    }
  }
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, text.size());
  return text;
}

}  // namespace heed
