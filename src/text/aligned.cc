#include "text/aligned.h"

#include <utility>

#include "base/check.h"

namespace heed::text {

AlignedText::AlignedText(const AlignedText& whole, size_t begin, size_t end, size_t limit)
    : view_(whole.view_.substr(begin, end - begin)),
      file_(whole.file_),
      limit_(limit),
      base_(whole.base_ + (whole.changed_ ? 0 : static_cast<int64_t>(begin))),
      track_(whole.track_),
      changed_(whole.changed_),
      at_start_(whole.at_start_ && begin == 0) {
  if (track_ && changed_) {
    spans_.assign(whole.spans_.begin() + static_cast<ptrdiff_t>(begin),
                  whole.spans_.begin() + static_cast<ptrdiff_t>(end));
  }
}

TextSpan AlignedText::source(size_t begin, size_t end) const {
  if (!changed_) {
    return {base_ + static_cast<int64_t>(begin), base_ + static_cast<int64_t>(end)};
  }
  if (!track_ || spans_.empty()) {
    return {base_, base_};
  }
  if (begin >= end) {
    const int64_t at = begin < spans_.size() ? spans_[begin].begin : spans_.back().end;
    return {base_ + at, base_ + at};
  }
  return {base_ + spans_[begin].begin, base_ + spans_[end - 1].end};
}

Rewriter::Rewriter(AlignedText& text) : text_(text) {
  out_.reserve(text.view_.size() + text.view_.size() / 8 + 16);
  if (text.track_) {
    spans_.reserve(out_.capacity());
  }
}

void Rewriter::keep(size_t begin, size_t end) {
  out_.append(text_.view_.substr(begin, end - begin));
  if (!text_.track_) {
    return;
  }
  if (text_.changed_) {
    spans_.insert(spans_.end(), text_.spans_.begin() + static_cast<ptrdiff_t>(begin),
                  text_.spans_.begin() + static_cast<ptrdiff_t>(end));
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    spans_.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(i + 1)});
  }
}

void Rewriter::put(std::string_view replacement, size_t begin, size_t end) {
  check_data(out_.size() + replacement.size() <= text_.limit_, text_.file_,
             "the tokenizer's normalizers make a text more than {} times as long", kUsualGrowth);
  out_.append(replacement);
  if (!text_.track_) {
    return;
  }
  const TextSpan from = text_.source(begin, end);
  const AlignedText::Span32 span{static_cast<uint32_t>(from.begin - text_.base_),
                                 static_cast<uint32_t>(from.end - text_.base_)};
  spans_.insert(spans_.end(), replacement.size(), span);
}

void Rewriter::commit() {
  text_.owned_ = std::move(out_);
  text_.spans_ = std::move(spans_);
  text_.view_ = text_.owned_;
  text_.changed_ = true;
}

}  // namespace heed::text
