#include "retrieval/lexical.h"

#include <algorithm>
#include <functional>

#include "retrieval/terms.h"

namespace heed {
namespace {

/// One Hangul syllable: three bytes from U+AC00 to U+D7A3.
bool is_syllable(const std::string& term) {
  return term.size() == 3 && term >= "\xEA\xB0\x80" && term <= "\xED\x9E\xA3";
}

/// FTS5's phrase for a term. It stands in quotes: nothing in it is syntax.
std::string phrase_of(const std::string& term) {
  std::string phrase = "\"";
  for (const char c : term) {
    phrase += c == '"' ? "\"\"" : std::string(1, c);
  }
  return phrase + (is_syllable(term) ? "\"*" : "\"");
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

LexicalSearch::LexicalSearch(const Database& database) : database_(database) {
  register_bm25(database);
}

void LexicalSearch::forget_if_changed() {
  const int64_t version = database_.integer("PRAGMA data_version");
  constexpr size_t kMostRemembered = 100'000;
  if (version != version_ || rows_with_.size() > kMostRemembered) {
    table_ = {};
    rows_with_.clear();
    version_ = version;
  }
}

/// The phrases that some row has, the rarest first.
LexicalSearch::Phrases LexicalSearch::weigh(const std::vector<std::string>& terms) {
  Phrases phrases;
  Statement count(database_, "SELECT count(*) FROM lexical WHERE lexical MATCH ?");
  for (const std::string& term : terms) {
    Phrase phrase{phrase_of(term)};
    const auto [known, is_new] = rows_with_.try_emplace(phrase.text);
    if (is_new) {
      count.bind(std::string_view(phrase.text)).next();
      known->second = count.integer(0);
    }
    phrase.rows = known->second;
    if (phrase.rows > 0) {
      phrases.push_back(std::move(phrase));
    }
  }
  std::stable_sort(phrases.begin(), phrases.end(),
                   [](const Phrase& a, const Phrase& b) { return a.rows < b.rows; });
  if (!phrases.empty() && table_.rows == 0) {
    Bm25Query query{&table_, {}};
    Statement look(database_,
                   "SELECT heed_bm25(lexical, ?) FROM lexical WHERE lexical MATCH ? LIMIT 1");
    look.bind(bm25_argument(query), std::string_view(phrases.front().text)).run();
  }
  for (Phrase& phrase : phrases) {
    phrase.idf = bm25_idf(table_.rows, phrase.rows);
  }
  return phrases;
}

/// Scores the rows that have one of the first `wanted` phrases. `both`: only those that have one of
/// the others, too, by all phrases; else by the first ones alone.
std::vector<LexicalSearch::Scored> LexicalSearch::score(const Phrases& phrases, size_t wanted,
                                                        bool both) {
  std::string expression = "(";
  Bm25Query query{&table_, {}};
  for (size_t i = 0; i < (both ? phrases.size() : wanted); ++i) {
    expression += i == 0 ? "" : i == wanted ? ") AND (" : " OR ";
    expression += phrases[i].text;
    query.idf.push_back(phrases[i].idf);
  }
  expression += ")";
  Statement find(
      database_,
      "SELECT rowid, heed_bm25(lexical, ?) FROM lexical WHERE lexical MATCH ? ORDER BY rowid");
  find.bind(bm25_argument(query), std::string_view(expression));
  std::vector<Scored> found;
  while (find.next()) {
    found.push_back({find.integer(0), find.real(1)});
  }
  return found;
}

/// Rows among which the best `count` are, with their scores, in the order of their ids.
///
/// Common words (most of all "the", "of", …) are in many rows and weigh little. A phrase adds at
/// most idf · (k1 + 1) to a score. So where the rare phrases alone give `count` rows that score
/// more than all common phrases could add up to, a row without a rare phrase is none of the best,
/// and the common ones are looked at only in rows that have a rare one (MaxScore, Turtle and Flood
/// 1995).
std::vector<LexicalSearch::Scored> LexicalSearch::candidates(const Phrases& phrases,
                                                             int64_t count) {
  const auto enough = static_cast<size_t>(count);
  constexpr int64_t kCommon = 20;  // in more than one of 20 rows
  size_t rare = 0;
  while (rare < phrases.size() && (rare == 0 || phrases[rare].rows * kCommon <= table_.rows)) {
    ++rare;
  }
  double common = 0.0;
  for (size_t i = rare; i < phrases.size(); ++i) {
    common += phrases[i].idf * (kBm25K1 + 1.0);
  }
  std::vector<Scored> found = score(phrases, rare, false);
  if (rare == phrases.size()) {
    return found;
  }
  std::vector<double> scores;
  scores.reserve(found.size());
  for (const Scored& each : found) {
    scores.push_back(each.score);
  }
  if (scores.size() >= enough) {
    const auto last = scores.begin() + (count - 1);
    std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
    if (*last > common) {
      size_t at = 0;
      for (const Scored& each : score(phrases, rare, true)) {
        while (at < found.size() && found[at].chunk < each.chunk) {  // both ascend
          ++at;
        }
        if (at < found.size() && found[at].chunk == each.chunk) {
          found[at].score = each.score;
        }
      }
      return found;
    }
  }
  return score(phrases, phrases.size(), false);
}

std::vector<VectorHit> LexicalSearch::search(const std::vector<std::string>& terms, int64_t count) {
  forget_if_changed();
  const Phrases phrases = weigh(terms);
  if (phrases.empty()) {
    return {};
  }
  std::vector<Scored> found = candidates(phrases, count);
  const auto first = [](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.chunk < b.chunk;
  };
  const auto end = found.begin() + std::min<int64_t>(count, static_cast<int64_t>(found.size()));
  std::partial_sort(found.begin(), end, found.end(), first);
  std::vector<VectorHit> hits;
  for (auto each = found.begin(); each != end; ++each) {
    hits.push_back({each->chunk, static_cast<float>(each->score)});
  }
  return hits;
}

}  // namespace heed
