#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/check.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

/// The parts of a precompiled_charsmap: the units of its trie, and what they point into.
struct Charsmap {
  std::vector<uint32_t> units;
  std::string_view replacements;
};

Charsmap split_charsmap(std::string_view blob, std::string_view file) {
  uint32_t bytes = 0;
  check_data(blob.size() >= sizeof bytes, file, "precompiled_charsmap has only {} bytes",
             blob.size());
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  check_data(bytes % 4 == 0 && bytes > 0 && bytes <= blob.size() - sizeof bytes, file,
             "precompiled_charsmap says its trie has {} bytes, of {}", bytes, blob.size());
  Charsmap map;
  map.units.resize(bytes / 4);
  std::memcpy(map.units.data(), blob.data() + sizeof bytes, bytes);
  map.replacements = blob.substr(sizeof bytes + bytes);
  return map;
}

/// How far the children of a unit are from it (exclusive or).
size_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }

/// Follows every path of a trie, as any text could.
class CharsmapWalk {
 public:
  CharsmapWalk(const Charsmap& map, std::string_view file)
      : map_(map), file_(file), known_(map.units.size(), kUnknown) {
    require(map.units.size() % kBlock == 0);
    visit(0, 0);
  }

 private:
  static constexpr size_t kBlock = 256;  ///< units that a position may lead to
  static constexpr int kDeepest = 256;   ///< bytes of a key
  static constexpr int kMostKeys = 32;   ///< of one path, as SentencePiece has it
  static constexpr int8_t kUnknown = -1;
  static constexpr int8_t kOpen = -2;

  void require(bool right) const {
    check_data(right, file_, "the trie of its precompiled_charsmap is corrupt");
  }

  /// The most keys on a path through a unit.
  int visit(size_t at, int depth) {  // NOLINT(misc-no-recursion): kDeepest
    require(depth <= kDeepest && known_[at] != kOpen);
    if (known_[at] != kUnknown) {
      return known_[at];
    }
    known_[at] = kOpen;
    const std::vector<uint32_t>& units = map_.units;
    const size_t below = at ^ offset_of(units[at]);
    require(below < units.size());
    const bool leaf = at > 0 && has_leaf(units[at]);
    require(!leaf || (units[below] & 0x7FFFFFFFu) < map_.replacements.size());
    int most = 0;
    for (size_t byte = 0; byte < kBlock; ++byte) {
      if ((units[below ^ byte] & 0x800000FFu) == byte) {
        most = std::max(most, visit(below ^ byte, depth + 1));
      }
    }
    most += leaf ? 1 : 0;
    require(most <= kMostKeys);
    known_[at] = static_cast<int8_t>(most);
    return most;
  }

  const Charsmap& map_;
  std::string_view file_;
  std::vector<int8_t> known_;  ///< by unit: the most keys on a path through it
};

/// SentencePiece's replacements: a double-array trie (darts) from a string to an offset in a list
/// of zero-ended strings.
class Precompiled final : public Normalizer {
 public:
  Precompiled(std::string_view blob, const std::string& file) {
    Charsmap map = split_charsmap(blob, file);
    units_ = std::move(map.units);
    replacements_ = map.replacements;
  }

  void apply(AlignedText& text) const override {
    const std::string_view view = text.text();
    Rewriter out(text);
    const auto rewrite = [&](size_t begin, size_t end) {
      const auto found = find(view.substr(begin, end - begin));
      if (found) {
        out.put(*found, begin, end);
      }
      return found.has_value();
    };
    // Whole clusters are looked up only up to this size; longer ones go character by character.
    constexpr size_t kWholeCluster = 6;
    for (size_t i = 0; i < view.size();) {
      const size_t end = cluster_end(view, i);
      if (end - i < kWholeCluster && rewrite(i, end)) {
        i = end;
        continue;
      }
      while (i < end) {
        const size_t next = i + decode_one(view.data() + i, view.data() + view.size()).length;
        if (!rewrite(i, next)) {
          out.keep(i, next);
        }
        i = next;
      }
    }
    out.commit();
  }

 private:
  /// The replacement of the shortest entry that `key` begins with.
  std::optional<std::string_view> find(std::string_view key) const {
    size_t node = offset_of(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size() || (units_[node] & 0x800000FFu) != byte) {
        return std::nullopt;
      }
      const bool leaf = has_leaf(units_[node]);
      node ^= offset_of(units_[node]);
      if (leaf) {
        const size_t at = node < units_.size() ? units_[node] & 0x7FFFFFFFu : replacements_.size();
        if (at >= replacements_.size()) {
          return std::nullopt;
        }
        const std::string_view rest = std::string_view(replacements_).substr(at);
        return rest.substr(0, rest.find('\0'));
      }
    }
    return std::nullopt;
  }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

/// An empty table changes nothing.
class Nothing final : public Normalizer {
 public:
  void apply(AlignedText&) const override {}
};

}  // namespace

void check_charsmap(std::string_view blob, std::string_view file) {
  if (!blob.empty()) {
    const Charsmap map = split_charsmap(blob, file);
    CharsmapWalk(map, file);
  }
}

std::unique_ptr<Normalizer> make_precompiled(const std::string& base64, const std::string& file) {
  const std::string blob = decode_base64(base64, file);
  if (blob.empty()) {
    return std::make_unique<Nothing>();
  }
  return std::make_unique<Precompiled>(blob, file);
}

}  // namespace heed::text
