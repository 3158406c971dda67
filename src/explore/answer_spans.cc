#include <algorithm>

#include "explore/trace.h"
#include "heed/ops.h"

// Question answering: a model gives two logits for each token, one for the answer's first token
// and one for its last, and every stretch of the text is an answer with the sum of both as its
// logit.

namespace heed::explore {
namespace {

constexpr int64_t kMostTokens = 15;  // of an answer, as in Hugging Face's pipeline

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
  const TokenId unknown = model_.tokenizer.special().unk.value_or(-1);
  const auto answers = [&](int64_t from) {
    for (int64_t first = from; first < count; ++first) {
      for (int64_t last = first; last < std::min(count, first + kMostTokens); ++last) {
        const ShownToken& token = source_[static_cast<size_t>(last)];
        if (token.special && token.id != unknown) {
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
  const bool second = request_.pair && span.first >= passage_;
  const bool one_text = second || !request_.pair || span.last < passage_;
  if (one_text && !offsets_.empty()) {
    const std::string& text = second ? *request_.pair : *request_.text;
    const auto begin = static_cast<size_t>(offsets_[static_cast<size_t>(span.first)].begin);
    const auto end = static_cast<size_t>(offsets_[static_cast<size_t>(span.last)].end);
    if (begin < end && end <= text.size()) {
      const std::string found = text.substr(begin, end - begin);
      return found.substr(std::min(found.find_first_not_of(' '), found.size() - 1));
    }
  }
  std::string labels;
  for (int64_t i = span.first; i <= span.last; ++i) {
    labels += (labels.empty() ? "" : " ") + source_[static_cast<size_t>(i)].label;
  }
  return labels;
}

}  // namespace heed::explore
