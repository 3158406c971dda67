#include "retrieval/snippet.h"

#include <algorithm>

#include "retrieval/terms.h"

namespace heed {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_inner_byte(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// The nearest word edge at or after `at`, at most `reach` bytes on; else the next character.
int64_t edge_after(std::string_view text, int64_t at, int64_t reach) {
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t i = at; i < std::min(size, at + reach); ++i) {
    if (i == 0 || is_space(text[static_cast<size_t>(i - 1)])) {
      return i;
    }
  }
  while (at < size && is_inner_byte(text[static_cast<size_t>(at)])) {
    ++at;
  }
  return at;
}

}  // namespace

std::vector<TextSpan> find_matches(std::string_view text, const std::set<std::string>& wanted) {
  std::vector<TextSpan> spans;
  for (const Term& term : terms_of(text)) {
    if (wanted.contains(term.text)) {
      spans.push_back(term.span);
    }
  }
  std::sort(spans.begin(), spans.end(), [](TextSpan a, TextSpan b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::vector<TextSpan> joined;
  for (const TextSpan span : spans) {
    if (!joined.empty() && span.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, span.end);
    } else {
      joined.push_back(span);
    }
  }
  return joined;
}

TextSpan snippet_of(std::string_view text, const std::vector<TextSpan>& matches, int64_t bytes) {
  const auto size = static_cast<int64_t>(text.size());
  if (size <= bytes) {
    return {0, size};
  }
  // The window that begins shortly before a match and covers most matched bytes.
  constexpr int64_t kBefore = 60;
  constexpr int64_t kReach = 30;
  int64_t begin = 0;
  int64_t most = -1;
  for (size_t i = 0; i < matches.size(); ++i) {
    const int64_t start = std::min(std::max<int64_t>(0, matches[i].begin - kBefore), size - bytes);
    int64_t covered = 0;
    for (size_t j = i; j < matches.size() && matches[j].end <= start + bytes; ++j) {
      covered += matches[j].end - matches[j].begin;
    }
    if (covered > most) {
      most = covered;
      begin = start;
    }
  }
  begin = edge_after(text, begin, kReach);
  int64_t end = std::min(size, begin + bytes);
  end = end == size ? size : std::min(size, edge_after(text, end, kReach));
  return {begin, end};
}

}  // namespace heed
