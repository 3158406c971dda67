#include <fmt/format.h>

#include "base/utf8.h"
#include "explore/trace.h"
#include "inspect/labels.h"

namespace heed::explore {
namespace {

/// Whether a byte continues the UTF-8 character before it.
bool is_inside_character(std::string_view text, int64_t at) {
  return std::cmp_less(at, text.size()) &&
         (static_cast<unsigned char>(text[static_cast<size_t>(at)]) & 0xC0) == 0x80;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Numbers the whitespace-separated words that spans lie in.
void number_words(std::string_view text, const std::vector<TextSpan>& spans,
                  std::vector<ShownToken>& tokens) {
  int64_t word = -1;
  size_t at = 0;
  bool inside = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].special || spans[i].end == spans[i].begin) {
      continue;
    }
    // The word of a token is that of its last character that is not white space.
    for (; at < static_cast<size_t>(spans[i].end) && at < text.size(); ++at) {
      if (is_space(text[at])) {
        inside = false;
      } else if (!inside) {
        inside = true;
        ++word;
      }
    }
    tokens[i].word = word;
  }
}

}  // namespace

std::vector<ShownToken> shown_tokens(const Tokenizer& tokenizer, const Encoding& encoding,
                                     std::string_view text) {
  const std::vector<std::string> labels = token_labels(encoding, text);
  std::vector<ShownToken> tokens(encoding.ids.size());
  std::vector<TextSpan> spans = encoding.offsets;
  for (size_t i = 0; i < spans.size(); ++i) {
    spans[i] = is_added_space(encoding, i) ? TextSpan{} : spans[i];
  }
  int64_t group = -1, end = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    ShownToken& token = tokens[i];
    const TextSpan span = spans[i];
    token.id = encoding.ids[i];
    token.label = labels[i];
    token.special = encoding.special_tokens_mask[i] != 0 || tokenizer.is_special(encoding.ids[i]);
    // Pieces of one character share its span, or split it: the first has the whole of it.
    const bool continues = i > 0 && span.end > span.begin &&
                           encoding.type_ids[i] == encoding.type_ids[i - 1] &&
                           (span == spans[i - 1] || is_inside_character(text, span.begin));
    group += continues ? 0 : 1;
    token.group = group;
    int64_t reaches = span.end;
    while (is_inside_character(text, reaches)) {
      ++reaches;
    }
    if (span.end > span.begin && reaches > end && encoding.type_ids[i] == 0) {
      // With the white space that lies before it; behind pieces of a character, what follows it.
      const auto begin = static_cast<size_t>(continues ? end : std::min(span.begin, end));
      token.text = std::string(text.substr(begin, static_cast<size_t>(reaches) - begin));
      end = reaches;
    }
  }
  number_words(text, spans, tokens);
  return tokens;
}

std::string token_name(const Tokenizer& tokenizer, int64_t id) {
  return id < tokenizer.vocab_size() ? token_labels({id}, tokenizer).front()
                                     : fmt::format("<{}>", id);
}

std::vector<ShownToken> shown_tokens(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> labels;
  if (std::all_of(ids.begin(), ids.end(),
                  [&](TokenId id) { return id < tokenizer.vocab_size(); })) {
    labels = token_labels(ids, tokenizer);
  } else {
    for (const TokenId id : ids) {
      labels.push_back(token_name(tokenizer, id));
    }
  }
  std::vector<ShownToken> tokens(ids.size());
  StreamDecoder decoder(tokenizer);
  int64_t group = -1, word = -1;
  bool complete = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    ShownToken& token = tokens[i];
    token.id = ids[i];
    token.label = labels[i];
    token.special = ids[i] >= tokenizer.vocab_size() || tokenizer.is_special(ids[i]);
    group += complete ? 1 : 0;
    token.group = group;
    if (token.special) {
      complete = true;
      continue;
    }
    token.text = decoder.push(ids[i]);
    complete = !token.text.empty();
    word += word < 0 || (!token.text.empty() && is_space(token.text.front())) ? 1 : 0;
    token.word = word;
  }
  return tokens;
}

}  // namespace heed::explore
