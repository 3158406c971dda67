#include "retrieval/chunks.h"

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "base/parallel.h"
#include "base/utf8.h"
#include "retrieval/sentences.h"

namespace heed {
namespace {

// Bytes, for text that has next to no tokens, such as a word of a megabyte that a tokenizer does
// not know: ordinary text does not reach them.
constexpr int64_t kLongestUnit = int64_t{64} << 10;
constexpr int64_t kLongestOverlap = kLongestUnit;
constexpr int64_t kLongestChunk = 4 * kLongestUnit;

/// A sentence, or a part of a long one, with its number of tokens.
struct Unit {
  TextSpan span;
  int64_t tokens = 0;  // at least 1
};

std::string_view part(std::string_view text, TextSpan span) {
  return text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
}

/// At least 1: what has no tokens takes room, too.
int64_t count_tokens(const Tokenizer& tokenizer, std::string_view text) {
  return std::max<int64_t>(1, static_cast<int64_t>(tokenizer.encode_ids(text, false).size()));
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The last position in (begin, end) where a cut hurts least: after white space, else between
/// characters.
size_t cut_place(std::string_view text, size_t begin, size_t end) {
  for (size_t at = end; at > begin + 1; --at) {
    if (is_space(text[at - 1])) {
      return at;
    }
  }
  size_t at = end;
  while (at > begin + 1 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) {
    --at;
  }
  return at;
}

/// Cuts a span of too many tokens into parts of at most `limit`.
void split_long(std::string_view text, TextSpan span, const Tokenizer& tokenizer, int64_t limit,
                std::vector<Unit>& units) {
  auto begin = static_cast<size_t>(span.begin);
  const auto stop = static_cast<size_t>(span.end);
  // The first guess is the sentence's own bytes per token; each miss halves it.
  const auto bytes_per_token = std::max<size_t>(
      1, (stop - begin) / static_cast<size_t>(count_tokens(tokenizer, part(text, span))));
  const auto first_guess =
      std::min(static_cast<size_t>(kLongestUnit),
               std::max<size_t>(4, bytes_per_token * static_cast<size_t>(limit)));
  while (begin < stop) {
    size_t size = first_guess;
    for (;;) {
      size_t end = begin + size >= stop ? stop : cut_place(text, begin, begin + size);
      end = std::max(end, begin + utf8_sequence(text.substr(begin)));
      end = std::max(end, begin + 1);
      const TextSpan candidate{static_cast<int64_t>(begin), static_cast<int64_t>(end)};
      const int64_t tokens = count_tokens(tokenizer, part(text, candidate));
      if (tokens <= limit || size <= 4) {
        units.push_back({candidate, tokens});
        begin = end;
        break;
      }
      size /= 2;
    }
  }
}

std::vector<Unit> units_of(std::string_view text, const Tokenizer& tokenizer, int64_t limit) {
  const std::vector<TextSpan> sentences = split_sentences(text);
  std::vector<int64_t> counts(sentences.size());
  parallel_ranges(static_cast<int64_t>(sentences.size()), 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      counts[i] = count_tokens(tokenizer, part(text, sentences[i]));
    }
  });
  std::vector<Unit> units;
  for (size_t i = 0; i < sentences.size(); ++i) {
    if (counts[i] > limit || sentences[i].end - sentences[i].begin > kLongestUnit) {
      split_long(text, sentences[i], tokenizer, limit, units);
    } else {
      units.push_back({sentences[i], counts[i]});
    }
  }
  return units;
}

}  // namespace

std::vector<Chunk> chunk_section(const Section& section, const Tokenizer& tokenizer,
                                 const ChunkOptions& options) {
  check(options.make_sense(), "index",
        "{} tokens per chunk with an overlap of {} make no sense; at least 8, and less overlap "
        "than that",
        options.tokens, options.overlap);
  const std::vector<Unit> units = units_of(section.text, tokenizer, options.tokens);
  std::vector<Chunk> chunks;
  size_t first = 0;
  while (first < units.size()) {
    size_t last = first;
    int64_t tokens = 0;
    const auto fits = [&](const Unit& unit) {
      return tokens + unit.tokens <= options.tokens &&
             unit.span.end - units[first].span.begin <= kLongestChunk;
    };
    while (last < units.size() && (last == first || fits(units[last]))) {
      tokens += units[last++].tokens;
    }
    TextSpan span{units[first].span.begin, units[last - 1].span.end};
    while (span.end > span.begin && section.text[static_cast<size_t>(span.end - 1)] == ' ') {
      --span.end;
    }
    Chunk chunk{section.title, std::string(part(section.text, span)), section.location, span, 0};
    chunk.hash = fingerprint_of(chunk.text, fingerprint_of(chunk.title));
    chunks.push_back(std::move(chunk));
    if (last == units.size()) {
      break;
    }
    // Go back over whole sentences, but never to where this chunk began.
    size_t next = last;
    int64_t repeated = 0;
    const int64_t begin = units[last].span.begin - kLongestOverlap;
    while (next > first + 1 && repeated + units[next - 1].tokens <= options.overlap &&
           units[next - 1].span.begin >= begin &&
           repeated + units[next - 1].tokens + units[last].tokens <= options.tokens) {
      repeated += units[--next].tokens;
    }
    first = next;
  }
  return chunks;
}

}  // namespace heed
