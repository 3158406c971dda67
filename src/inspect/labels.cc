#include "inspect/labels.h"

#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"
#include "heed/inspect.h"

namespace heed {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// [begin, end) widened to whole characters, without the spaces before them.
TextSpan whole_characters(TextSpan span, std::string_view text) {
  const auto size = static_cast<int64_t>(text.size());
  while (span.begin > 0 && is_continuation(text[static_cast<size_t>(span.begin)])) {
    --span.begin;
  }
  while (span.end < size && is_continuation(text[static_cast<size_t>(span.end)])) {
    ++span.end;
  }
  while (span.begin + 1 < span.end && text[static_cast<size_t>(span.begin)] == ' ') {
    ++span.begin;  // the space before a word goes with its first piece
  }
  return span;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    return text.empty() ? "" : "␣";
  }
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

/// A piece of a character as the bytes it stands for: "\\xEC".
std::string escaped_bytes(std::string_view text) {
  std::string label;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    label += byte < 0x80 ? std::string(1, c) : fmt::format("\\x{:02X}", byte);
  }
  return label;
}

/// A token by its own name: SentencePiece's space as the one of every other tokenizer.
std::string named(const std::string& token) { return token == "▁" ? "␣" : token; }

bool has_text(const TextSpan& span, std::string_view text) {
  return span.begin >= 0 && span.begin < span.end && std::cmp_less_equal(span.end, text.size());
}

}  // namespace

bool is_added_space(const Encoding& encoding, size_t i) {
  return encoding.tokens[i] == "▁" && i + 1 < encoding.tokens.size() &&
         (encoding.type_ids.empty() || encoding.type_ids[i] == encoding.type_ids[i + 1]) &&
         encoding.offsets[i].begin == encoding.offsets[i + 1].begin &&
         encoding.offsets[i + 1].end > encoding.offsets[i + 1].begin;
}

std::vector<std::string> token_labels(const Encoding& encoding, std::string_view text) {
  std::vector<std::string> labels;
  const size_t count = encoding.tokens.size();
  std::vector<TextSpan> whole(count);
  for (size_t i = 0; i < count; ++i) {
    const TextSpan span = encoding.offsets[i];
    const bool shown = has_text(span, text) && !is_added_space(encoding, i);
    whole[i] = shown ? whole_characters(span, text) : TextSpan{};
  }
  for (size_t i = 0; i < count; ++i) {
    const TextSpan span = whole[i];
    const bool first_text = encoding.type_ids.empty() || encoding.type_ids[i] == 0;
    if (!first_text || span.begin == span.end || encoding.tokens[i].starts_with("##")) {
      labels.push_back(named(encoding.tokens[i]));
      continue;
    }
    const auto at = [&](int64_t from, int64_t to) {
      return text.substr(static_cast<size_t>(from), static_cast<size_t>(to - from));
    };
    std::string label = trimmed(at(span.begin, span.end));
    size_t first = i, last = i;
    while (first > 0 && whole[first - 1] == span) {
      --first;
    }
    while (last + 1 < count && whole[last + 1] == span) {
      ++last;
    }
    label += last > first ? fmt::format("({}/{})", i - first + 1, last - first + 1) : "";
    labels.push_back(std::move(label));
  }
  return labels;
}

std::vector<std::string> token_labels(const std::vector<TokenId>& ids, const Tokenizer& tokenizer) {
  std::vector<std::string> labels;
  for (const TokenId id : ids) {
    const std::string text = tokenizer.decode(std::vector<TokenId>{id}, false);
    const bool unknown = text.empty() || text.find("\xEF\xBF\xBD") != std::string::npos;
    labels.push_back(unknown                ? named(tokenizer.id_to_token(id))
                     : !is_valid_utf8(text) ? escaped_bytes(trimmed(text))
                                            : trimmed(text));
  }
  return labels;
}

}  // namespace heed
