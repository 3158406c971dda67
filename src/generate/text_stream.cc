#include <algorithm>

#include "heed/generate.h"

namespace heed {

TextStream::TextStream(Tokenizer tokenizer, std::vector<std::string> stops,
                       std::span<const int64_t> prompt)
    : decoder_(tokenizer), stops_(std::move(stops)) {
  std::erase(stops_, std::string());
  constexpr size_t kContext = 8;  // enough for the next token's text
  const auto last = prompt.last(std::min(prompt.size(), kContext));
  std::vector<TokenId> context(last.begin(), last.end());
  std::erase_if(context, [&](TokenId id) { return id >= tokenizer.vocab_size(); });
  size_t given = 0;
  for (const TokenId id : context) {
    given += decoder_.push(id).size();
  }
  // What the decoder has held back of the prompt is no part of the text either.
  skipped_ = tokenizer.decode(context).size() - given;
}

std::string TextStream::push(int64_t id) {
  if (stopped_) {
    return {};
  }
  take(decoder_.push(id));
  return release(false);
}

std::string TextStream::finish() {
  if (stopped_) {
    return {};
  }
  take(decoder_.finish());
  return release(true);
}

/// Adds decoded text, without what belongs to the prompt.
void TextStream::take(const std::string& text) {
  const size_t skipped = std::min(skipped_, text.size());
  skipped_ -= skipped;
  held_.append(text, skipped);
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
