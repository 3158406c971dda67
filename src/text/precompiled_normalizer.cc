#include <cstring>
#include <optional>
#include <vector>

#include "base/base64.h"
#include "base/check.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

/// SentencePiece's replacements: a double-array trie (darts) from a string to an offset in a list
/// of zero-ended strings.
class Precompiled final : public Normalizer {
 public:
  Precompiled(std::string_view blob, const std::string& file) {
    uint32_t bytes = 0;
    check_data(blob.size() >= sizeof bytes, file, "precompiled_charsmap has only {} bytes",
               blob.size());
    std::memcpy(&bytes, blob.data(), sizeof bytes);
    check_data(bytes % 4 == 0 && bytes > 0 && bytes <= blob.size() - sizeof bytes, file,
               "precompiled_charsmap says its trie has {} bytes, of {}", bytes, blob.size());
    units_.resize(bytes / 4);
    std::memcpy(units_.data(), blob.data() + sizeof bytes, bytes);
    replacements_ = blob.substr(sizeof bytes + bytes);
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
    const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
    size_t node = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size() || (units_[node] & 0x800000FFu) != byte) {
        return std::nullopt;
      }
      const bool leaf = (units_[node] >> 8 & 1) != 0;
      node ^= offset(units_[node]);
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

std::unique_ptr<Normalizer> make_precompiled(const std::string& base64, const std::string& file) {
  const std::string blob = decode_base64(base64, file);
  if (blob.empty()) {
    return std::make_unique<Nothing>();
  }
  return std::make_unique<Precompiled>(blob, file);
}

}  // namespace heed::text
