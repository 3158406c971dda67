#include "text/pretokenizer.h"

#include <algorithm>

#include "text/byte_level.h"
#include "text/gpt2_split.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior behavior_of(const Json& json, std::string_view otherwise) {
  const std::string name = json.string_or("behavior", otherwise);
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  json.at("behavior").refuse("is not known here");
}

struct Part {
  Piece piece;
  bool match;
};

/// Matches and what lies between them, in order, nothing empty.
void cover(Piece piece, const std::vector<Piece>& matches, bool invert, std::vector<Part>& parts) {
  parts.clear();
  size_t done = piece.begin;
  const auto add = [&](size_t begin, size_t end, bool match) {
    if (end > begin) {
      parts.push_back({{begin, end}, match != invert});
    }
  };
  for (const Piece& match : matches) {
    add(done, piece.begin + match.begin, false);
    add(piece.begin + match.begin, piece.begin + match.end, true);
    done = piece.begin + match.end;
  }
  add(done, piece.end, false);
}

void join(const std::vector<Part>& parts, Behavior behavior, std::vector<Piece>& out) {
  const size_t first = out.size();
  bool previous = false;
  if (behavior == Behavior::merged_with_next) {
    for (size_t i = parts.size(); i-- > 0; previous = parts[i].match) {
      if (parts[i].match && !previous && out.size() > first) {
        out.back().begin = parts[i].piece.begin;
      } else {
        out.push_back(parts[i].piece);
      }
    }
    std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
    return;
  }
  for (const Part& part : parts) {
    const bool joins = behavior == Behavior::contiguous
                           ? part.match == previous
                           : behavior == Behavior::merged_with_previous && part.match && !previous;
    if (joins && out.size() > first) {
      out.back().end = part.piece.end;
    } else if (!(part.match && behavior == Behavior::removed)) {
      out.push_back(part.piece);
    }
    previous = part.match;
  }
}

/// Splits every piece at the matches that find(text, matches) gives.
template <class Find>
void split(const AlignedText& text, std::vector<Piece>& pieces, Behavior behavior, bool invert,
           Find&& find) {
  std::vector<Piece> out;
  std::vector<Piece> matches;
  std::vector<Part> parts;
  for (const Piece& piece : pieces) {
    matches.clear();
    find(text.text().substr(piece.begin, piece.end - piece.begin), matches);
    cover(piece, matches, invert, parts);
    join(parts, behavior, out);
  }
  pieces = std::move(out);
}

/// Single characters for which test(code) holds, as matches.
template <class Test>
auto characters(Test&& test) {
  return [test](std::string_view text, std::vector<Piece>& matches) {
    for (size_t i = 0; i < text.size();) {
      const CodePoint one = decode_one(text.data() + i, text.data() + text.size());
      if (test(one.code)) {
        matches.push_back({i, i + one.length});
      }
      i += one.length;
    }
  };
}

class Split final : public PreTokenizer {
 public:
  explicit Split(const Json& json)
      : pattern_(json),
        behavior_(behavior_of(json, "Isolated")),
        invert_(json.boolean_or("invert", false)) {}
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    split(text, pieces, behavior_, invert_,
          [&](std::string_view part, std::vector<Piece>& matches) {
            pattern_.find_all(part, matches);
          });
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

class BertSplit final : public PreTokenizer {
 public:
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    split(text, pieces, Behavior::removed, false, characters(is_space));
    split(text, pieces, Behavior::isolated, false, characters(is_bert_punctuation));
  }
};

class WhitespaceSplit final : public PreTokenizer {
 public:
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    split(text, pieces, Behavior::removed, false, characters(is_space));
  }
};

class Whitespace final : public PreTokenizer {
  /// \w+|[^\w\s]+ with Unicode's own definition of a word character.
  static constexpr std::string_view kWords =
      R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+|)"
      R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\s]+)";

 public:
  explicit Whitespace(const Json& json) : words_(kWords, json.file()) {}
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    split(text, pieces, Behavior::removed, true,
          [&](std::string_view part, std::vector<Piece>& matches) {
            words_.find_all(part, matches);
          });
  }

 private:
  Regex words_;
};

class Digits final : public PreTokenizer {
 public:
  explicit Digits(const Json& json)
      : behavior_(json.boolean_or("individual_digits", false) ? Behavior::isolated
                                                              : Behavior::contiguous) {}
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    const CharClasses classes;
    split(text, pieces, behavior_, false,
          characters([classes](char32_t code) { return classes(code) == CharClass::number; }));
  }

 private:
  Behavior behavior_;
};

class Punctuation final : public PreTokenizer {
 public:
  explicit Punctuation(const Json& json) : behavior_(behavior_of(json, "Isolated")) {}
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    split(text, pieces, behavior_, false, characters(is_bert_punctuation));
  }

 private:
  Behavior behavior_;
};

class Delimiter final : public PreTokenizer {
 public:
  explicit Delimiter(const Json& json) : delimiter_(json.string("delimiter")) {}
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    split(text, pieces, Behavior::removed, false,
          [&](std::string_view part, std::vector<Piece>& matches) {
            for (size_t at = delimiter_.empty() ? part.npos : part.find(delimiter_);
                 at != part.npos; at = part.find(delimiter_, at + delimiter_.size())) {
              matches.push_back({at, at + delimiter_.size()});
            }
          });
  }

 private:
  std::string delimiter_;
};

/// Rewrites the text and keeps the pieces on it: fn(out, piece) writes one piece.
template <class Fn>
void rewrite_pieces(AlignedText& text, std::vector<Piece>& pieces, Fn&& fn) {
  Rewriter out(text);
  for (Piece& piece : pieces) {
    const size_t begin = out.size();
    fn(out, piece);
    piece = {begin, out.size()};
  }
  out.commit();
}

/// What is put before a text stands for the same bytes as the text's first character.
size_t first_character_end(std::string_view text, size_t begin) {
  return begin + decode_one(text.data(), text.data() + text.size()).length;
}

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const Json& json)
      : replacement_(json.string_or("replacement", "\xE2\x96\x81")),
        scheme_(json.string_or("prepend_scheme",
                               json.boolean_or("add_prefix_space", true) ? "always" : "never")),
        split_(json.boolean_or("split", true)) {
    if (replacement_.empty()) {
      json.at("replacement").refuse("is empty");
    }
  }

  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    const std::string_view view = text.text();
    rewrite_pieces(text, pieces, [&](Rewriter& out, const Piece& piece) {
      const std::string_view part = view.substr(piece.begin, piece.end - piece.begin);
      const bool wanted =
          scheme_ == "always" || (scheme_ == "first" && piece.begin == 0 && text.at_start());
      if (wanted && !part.empty() && part[0] != ' ' && !part.starts_with(replacement_)) {
        out.put(replacement_, piece.begin, first_character_end(part, piece.begin));
      }
      for (size_t i = piece.begin; i < piece.end;) {
        const size_t space = std::min(view.find(' ', i), piece.end);
        out.keep(i, space);
        if (space < piece.end) {
          out.put(replacement_, space, space + 1);
        }
        i = space + 1;
      }
    });
    if (split_) {
      split(text, pieces, Behavior::merged_with_next, false,
            [&](std::string_view part, std::vector<Piece>& matches) {
              for (size_t at = part.find(replacement_); at != part.npos;
                   at = part.find(replacement_, at + replacement_.size())) {
                matches.push_back({at, at + replacement_.size()});
              }
            });
    }
  }

 private:
  std::string replacement_;
  std::string scheme_;
  bool split_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(const Json& json, ByteLevelPlan* plan)
      : prefix_(json.boolean_or("add_prefix_space", true)),
        pattern_(json.boolean_or("use_regex", true)),
        raw_(plan != nullptr) {
    if (plan != nullptr) {
      *plan = {true, pattern_, prefix_};
    }
  }
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    const std::string_view view = text.text();
    if (prefix_ && std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
          return piece.end > piece.begin && view[piece.begin] != ' ';
        })) {
      rewrite_pieces(text, pieces, [&](Rewriter& out, const Piece& piece) {
        if (piece.end > piece.begin && view[piece.begin] != ' ') {
          out.put(" ", piece.begin, first_character_end(view.substr(piece.begin), piece.begin));
        }
        out.keep(piece.begin, piece.end);
      });
    }
    if (pattern_) {
      cut(text.text(), pieces);
    }
    if (!raw_) {
      const std::string_view bytes = text.text();
      rewrite_pieces(text, pieces, [&](Rewriter& out, const Piece& piece) {
        for (size_t i = piece.begin; i < piece.end; ++i) {
          out.put(byte_to_text(static_cast<unsigned char>(bytes[i])), i, i + 1);
        }
      });
    }
  }

 private:
  static void cut(std::string_view text, std::vector<Piece>& pieces) {
    std::vector<Piece> out;
    for (const Piece& piece : pieces) {
      Gpt2Splitter words(text.substr(piece.begin, piece.end - piece.begin));
      for (std::string_view word; words.next(word);) {
        const auto begin = static_cast<size_t>(word.data() - text.data());
        out.push_back({begin, begin + word.size()});
      }
    }
    pieces = std::move(out);
  }

  bool prefix_, pattern_, raw_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  PreTokenizerSequence(const Json& json, ByteLevelPlan* plan) {
    const size_t count = json.at("pretokenizers").size();
    for (size_t i = 0; i < count; ++i) {
      parts_.push_back(
          make_pretokenizer(json.at("pretokenizers")[i], i + 1 == count ? plan : nullptr));
    }
    if (plan != nullptr && count > 1) {
      plan->gpt2_only = false;
    }
  }
  void apply(AlignedText& text, std::vector<Piece>& pieces) const override {
    for (const auto& part : parts_) {
      part->apply(text, pieces);
    }
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pretokenizer(const Json& json, ByteLevelPlan* plan) {
  const std::string type = json.string("type");
  if (type == "Sequence") return std::make_unique<PreTokenizerSequence>(json, plan);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(json, plan);
  if (type == "Split") return std::make_unique<Split>(json);
  if (type == "BertPreTokenizer") return std::make_unique<BertSplit>();
  if (type == "Whitespace") return std::make_unique<Whitespace>(json);
  if (type == "WhitespaceSplit") return std::make_unique<WhitespaceSplit>();
  if (type == "Metaspace") return std::make_unique<Metaspace>(json);
  if (type == "Digits") return std::make_unique<Digits>(json);
  if (type == "Punctuation") return std::make_unique<Punctuation>(json);
  if (type == "CharDelimiterSplit") return std::make_unique<Delimiter>(json);
  json.at("type").refuse("is not known here");
}

}  // namespace heed::text
