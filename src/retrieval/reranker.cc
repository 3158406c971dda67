#include "retrieval/reranker.h"

#include <algorithm>

#include "base/check.h"
#include "heed/tensor.h"
#include "models/forward.h"

namespace heed {

Reranker::Reranker(const std::string& model)
    : path_(model), model_(load_model(model)), tokenizer_(Tokenizer::load(base_model_path(model))) {
  if (model_->kind() != ModelKind::encoder) {
    fail(ErrorKind::usage, model,
         "reranking needs a cross-encoder (a sequence classifier); this folder holds a {}",
         model_->model_type());
  }
  token_types_ = reads_token_types(*model_);
}

std::vector<double> Reranker::score(std::string_view query,
                                    std::span<const std::string> passages) const {
  constexpr size_t kBatch = 16;
  const NoGrad no_grad;
  std::vector<double> scores;
  for (size_t begin = 0; begin < passages.size(); begin += kBatch) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (size_t i = begin; i < std::min(begin + kBatch, passages.size()); ++i) {
      pairs.emplace_back(query, passages[i]);
    }
    Tokenizer::BatchOptions options;
    const int64_t context = model_->context_length() > 0 ? model_->context_length() : 512;
    options.truncation =
        Truncation{.max_length = context, .strategy = Truncation::Strategy::only_second};
    options.padding = Padding{};
    const std::vector<Encoding> encodings = tokenizer_.encode_batch(pairs, options);
    const auto rows = static_cast<int64_t>(encodings.size());
    const auto length = static_cast<int64_t>(encodings.front().ids.size());
    ModelInput input;
    input.input_ids = Tensor::zeros({rows, length}, DType::i64);
    input.attention_mask = Tensor::zeros({rows, length}, DType::i64);
    const bool types = token_types_;
    if (types) {
      input.token_type_ids = Tensor::zeros({rows, length}, DType::i64);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const Encoding& encoding = encodings[static_cast<size_t>(i)];
      const auto copy = [&](const std::vector<TokenId>& from, const Tensor& to) {
        std::copy(from.begin(), from.end(), to.data<int64_t>() + i * length);
      };
      copy(encoding.ids, input.input_ids);
      copy(encoding.attention_mask, input.attention_mask);
      if (types) {
        copy(encoding.type_ids, input.token_type_ids);
      }
    }
    input.skip_padding = true;
    const Tensor logits = model_->forward(input).logits;
    if (!logits.defined() || logits.rank() != 2 || logits.size(0) != rows) {
      fail(ErrorKind::usage, path_,
           "reranking needs a sequence classifier; this {} gives no score per text",
           model_->model_type());
    }
    const int64_t classes = logits.size(1);
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = logits.data<float>() + i * classes;
      scores.push_back(classes == 1 ? row[0] : double{row[classes - 1]} - row[0]);
    }
  }
  return scores;
}

}  // namespace heed
