#include <algorithm>

#include "explore/trace.h"
#include "heed/ops.h"

// Question answering: a model gives two logits for each token, one for the answer's first token
// and one for its last, and every stretch of the text is an answer with the sum of both as its
// logit.

namespace heed::explore {
namespace {

constexpr int64_t kMostTokens = 15;  // of an answer, as in Hugging Face's pipeline

/// A text without the white space at its ends.
std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  return first == std::string::npos
             ? text
             : text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace

ModelOutput Trace::with_row_logits(ModelOutput output) const {
  Tensor first = output.start_logits, second = output.end_logits;
  if (finds_replaced_ && output.logits.defined()) {
    second = output.logits;
    first = Tensor::zeros(second.shape(), second.dtype());
  }
  if (first.defined()) {
    const Shape each{first.size(0), first.size(1), 1};
    output.logits = concat({reshape(first, each), reshape(second, each)}, 2);
  }
  return output;
}

void Trace::find_spans() {
  const auto count = static_cast<int64_t>(source_.size());
  const auto answers = [&](int64_t from) {
    for (int64_t first = from; first < count; ++first) {
      for (int64_t last = first; last < std::min(count, first + kMostTokens); ++last) {
        if (source_[static_cast<size_t>(last)].special) {
          break;
        }
        spans_.push_back({first, last});
      }
    }
  };
  answers(passage_);
  if (spans_.empty()) {
    answers(0);
  }
  for (int64_t i = 0; i < count && spans_.empty(); ++i) {  // nothing but special tokens
    spans_.push_back({i, i});
  }
}

Row Trace::span_logits(const std::vector<Row>& pairs) const {
  Row logits;
  for (const AnswerSpan& span : spans_) {
    logits.push_back(pairs[static_cast<size_t>(span.first)][0] +
                     pairs[static_cast<size_t>(span.last)][1]);
  }
  return logits;
}

Row Trace::row_logits(int64_t row) const {
  return slice(slice(logits_, 0, 0, 1), 1, row, row + 1).to_doubles();
}

std::string Trace::span_text(const AnswerSpan& span) const {
  std::string text, labels;
  for (int64_t i = span.first; i <= span.last; ++i) {
    const ShownToken& token = source_[static_cast<size_t>(i)];
    text += token.text;
    labels += (labels.empty() ? "" : " ") + token.label;
  }
  return text.empty() ? labels : trimmed(text);
}

}  // namespace heed::explore
