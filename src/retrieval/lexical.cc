#include "retrieval/lexical.h"

#include <algorithm>

#include "retrieval/terms.h"

namespace heed {
namespace {

/// One Hangul syllable: three bytes from U+AC00 to U+D7A3.
bool is_syllable(const std::string& term) {
  return term.size() == 3 && term >= "\xEA\xB0\x80" && term <= "\xED\x9E\xA3";
}

/// FTS5's expression for any of the terms. Terms stand in quotes: nothing in them is syntax.
std::string match_expression(const std::vector<std::string>& terms) {
  std::string expression;
  for (const std::string& term : terms) {
    expression += expression.empty() ? "\"" : " OR \"";
    for (const char c : term) {
      expression += c == '"' ? "\"\"" : std::string(1, c);
    }
    expression += is_syllable(term) ? "\"*" : "\"";
  }
  return expression;
}

}  // namespace

std::vector<std::string> query_terms(std::string_view query) {
  constexpr size_t kMostTerms = 256;  // a pasted page needs no more to be found
  std::vector<std::string> terms;
  for (Term& term : terms_of(query)) {
    if (terms.size() < kMostTerms &&
        std::find(terms.begin(), terms.end(), term.text) == terms.end()) {
      terms.push_back(std::move(term.text));
    }
  }
  return terms;
}

std::vector<VectorHit> search_lexical(const Database& database,
                                      const std::vector<std::string>& terms, int64_t count) {
  std::vector<VectorHit> hits;
  if (terms.empty()) {
    return hits;
  }
  const std::string expression = match_expression(terms);
  Statement find(database,
                 "SELECT rowid, bm25(lexical) AS score FROM lexical WHERE lexical MATCH ? "
                 "ORDER BY score, rowid LIMIT ?");
  find.bind(std::string_view(expression), count);
  while (find.next()) {
    hits.push_back({find.integer(0), static_cast<float>(-find.real(1))});
  }
  return hits;
}

}  // namespace heed
