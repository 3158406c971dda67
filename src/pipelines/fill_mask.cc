#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/language.h"
#include "heed/tensor.h"
#include "pipelines/batches.h"

namespace heed {
namespace {

constexpr std::string_view kNeeds = say("an encoder with a masked-language head");

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; what != with && (at = text.find(what, at)) != std::string::npos;
       at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

/// The text with the model's own mask in place of [MASK] and <mask>.
std::string with_own_mask(const std::string& text, const Tokenizer& tokenizer) {
  const std::string mask = tokenizer.id_to_token(*tokenizer.special().mask);
  return replaced(replaced(text, "[MASK]", mask), "<mask>", mask);
}

/// The k most probable tokens of a row of logits.
std::vector<MaskCandidate> candidates(const Tokenizer& tokenizer, const float* logits,
                                      int64_t vocab_size, int64_t top_k) {
  const auto k = std::min(top_k, vocab_size);
  std::vector<TokenId> order(static_cast<size_t>(vocab_size));
  std::iota(order.begin(), order.end(), TokenId{0});
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](TokenId a, TokenId b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  const double most = *std::max_element(logits, logits + vocab_size);
  double sum = 0.0;
  for (int64_t i = 0; i < vocab_size; ++i) {
    sum += std::exp(logits[i] - most);
  }
  std::vector<MaskCandidate> found;
  for (int64_t i = 0; i < k; ++i) {
    const TokenId id = order[static_cast<size_t>(i)];
    std::string token = id < tokenizer.vocab_size() ? tokenizer.decode(std::vector{id}, false) : "";
    token.erase(
        0, token.find_first_not_of(' ') == std::string::npos ? 0 : token.find_first_not_of(' '));
    found.push_back({std::move(token), id, std::exp(logits[id] - most) / sum});
  }
  return found;
}

}  // namespace

FillMask::FillMask(LoadedModel model) : ModelPipeline(std::move(model)) {
  check_suits(loaded_.model->kind() == ModelKind::encoder, kTask, kNeeds, loaded_);
  check_data(loaded_.tokenizer.special().mask.has_value(), loaded_.path.native(),
             "the tokenizer has no mask token, which `{}` needs", kTask);
}

std::vector<MaskedToken> FillMask::operator()(std::string_view text,
                                              const FillMaskOptions& options) const {
  return std::move((*this)(std::vector<std::string>{std::string(text)}, options).front());
}

std::vector<std::vector<MaskedToken>> FillMask::operator()(const std::vector<std::string>& texts,
                                                           const FillMaskOptions& options) const {
  const NoGrad no_grad;
  check(options.top_k >= 1, kTask, "top_k = {}", options.top_k);
  const TokenId mask = *loaded_.tokenizer.special().mask;
  std::vector<std::string> masked;
  masked.reserve(texts.size());
  for (const std::string& text : texts) {
    masked.push_back(with_own_mask(text, loaded_.tokenizer));
  }
  // A mask must not be cut off: long texts are errors.
  TokenBatch tokens =
      encode_inputs(loaded_, masked, kTask, loaded_.model->context_length(), false, options.run);
  for (size_t i = 0; i < texts.size(); ++i) {
    auto& ids = tokens.ids[i];
    if (!ids.empty() && std::find(ids.begin(), ids.end(), mask) == ids.end()) {
      report_error(options.run, kTask, i,
                   say("the text has no [MASK]; write it where a word is missing"));
      ids.clear();
    }
  }
  std::vector<std::vector<MaskedToken>> results(texts.size());
  for_each_batch(lengths_of(tokens), kTask, options.run, [&](const std::vector<size_t>& together) {
    const Tensor logits = loaded_.model->forward(padded_input(tokens, together)).logits;
    check_suits(
        logits.defined() && logits.rank() == 3 && logits.size(2) == loaded_.model->vocab_size(),
        kTask, kNeeds, loaded_);
    const Tensor rows = logits.to(DType::f32).contiguous();
    const int64_t vocab_size = rows.size(2);
    for (size_t i = 0; i < together.size(); ++i) {
      const auto& ids = tokens.ids[together[i]];
      for (size_t t = 0; t < ids.size(); ++t) {
        if (ids[t] == mask) {
          const int64_t row = static_cast<int64_t>(i) * rows.size(1) + static_cast<int64_t>(t);
          results[together[i]].push_back(
              {static_cast<int64_t>(t),
               candidates(loaded_.tokenizer, rows.data<float>() + row * vocab_size, vocab_size,
                          options.top_k)});
        }
      }
    }
  });
  return results;
}

}  // namespace heed
