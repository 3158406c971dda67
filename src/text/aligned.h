#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed::text {

/// A stretch of a text that a pre-tokenizer cut out: bytes [begin, end).
struct Piece {
  size_t begin;
  size_t end;
};

/// Normalizers come with a model and are not trusted: one after the other could multiply a text
/// without end. Unicode's own forms make at most 11 bytes of one, and no more than 6 of the texts
/// that people write (Hangul, decomposed and in byte-level writing).
inline constexpr size_t kUsualGrowth = 8;

/// The bytes that a text of `size` bytes may grow to: a short one may be an exception.
constexpr size_t grown_limit(size_t size) {
  return std::min(48 * size + 4096, kUsualGrowth * size + (size_t{1} << 20));
}

/// A text on its way through normalizers and pre-tokenizers, which remembers for every byte the
/// bytes of the original text it stands for.
class AlignedText {
 public:
  /// `base`: where `original` begins in the text the user gave. `track` off: no offsets are wanted.
  /// `file` names the tokenizer in errors and must outlive this.
  AlignedText(std::string_view original, int64_t base, bool track, std::string_view file = "")
      : AlignedText(original, base, track, file, grown_limit(original.size())) {}
  /// The same for a stretch of a longer text: it may grow to `limit` bytes.
  AlignedText(std::string_view original, int64_t base, bool track, std::string_view file,
              size_t limit)
      : view_(original),
        file_(file),
        limit_(limit),
        base_(base),
        track_(track),
        at_start_(base == 0) {}
  /// Bytes [begin, end) of another one's current text, which must outlive this.
  AlignedText(const AlignedText& whole, size_t begin, size_t end, size_t limit);
  AlignedText(const AlignedText&) = delete;
  AlignedText& operator=(const AlignedText&) = delete;

  std::string_view text() const { return view_; }
  /// Whether it begins where the user's text begins.
  bool at_start() const { return at_start_; }
  /// The original bytes that [begin, end) of the current text stands for.
  TextSpan source(size_t begin, size_t end) const;

 private:
  friend class Rewriter;
  struct Span32 {
    uint32_t begin, end;
  };

  std::string_view view_;
  std::string_view file_;
  size_t limit_;  ///< bytes that the text may grow to
  std::string owned_;
  std::vector<Span32> spans_;  ///< one per byte of owned_; unused while the text is unchanged
  int64_t base_;
  bool track_;
  bool changed_ = false;
  bool at_start_;
};

/// Writes the next state of an AlignedText from left to right.
class Rewriter {
 public:
  explicit Rewriter(AlignedText& text);
  /// Copies bytes [begin, end) of the current text.
  void keep(size_t begin, size_t end);
  /// Writes `replacement` for bytes [begin, end) of the current text.
  void put(std::string_view replacement, size_t begin, size_t end);
  size_t size() const { return out_.size(); }
  /// The written text becomes the current one.
  void commit();

 private:
  AlignedText& text_;
  std::string out_;
  std::vector<AlignedText::Span32> spans_;
};

}  // namespace heed::text
