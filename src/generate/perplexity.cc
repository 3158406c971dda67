#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "heed/generate.h"

namespace heed {
namespace {

constexpr const char* kPerplexity = "perplexity";
constexpr int64_t kLongestWindow = 1024;  // unless a longer one is asked for
constexpr int64_t kIgnore = -100;

}  // namespace

double Perplexity::value() const { return std::exp(loss); }

Perplexity perplexity(const Model& model, const std::vector<int64_t>& ids, int64_t context,
                      int64_t stride, const std::function<void(int64_t)>& progress) {
  if (model.kind() != ModelKind::decoder) {
    fail(ErrorKind::usage, kPerplexity, "wants a model that continues text (gpt2, llama), not {}",
         model.model_type());
  }
  const auto count = static_cast<int64_t>(ids.size());
  check(count >= 2, kPerplexity, "a text of {} tokens; at least 2 are needed", count);
  const int64_t most = model.context_length();
  if (context == 0) {
    context = most > 0 ? std::min(most, kLongestWindow) : kLongestWindow;
  }
  if (context < 2 || (most > 0 && context > most)) {
    fail(ErrorKind::usage, "context", "{} is out of range; 2 to {}", context,
         most > 0 ? most : count);
  }
  if (stride == 0) {
    stride = context / 2;
  }
  if (stride < 1 || stride >= context) {
    fail(ErrorKind::usage, "stride", "{} is out of range; 1 to {}", stride, context - 1);
  }
  const NoGrad no_grad;
  Perplexity result;
  double sum = 0.0;
  int64_t done = 1;  // the first token has nothing before it
  for (int64_t begin = 0; done < count; begin += stride) {
    const int64_t end = std::min(begin + context, count);
    std::vector<int64_t> labels(static_cast<size_t>(end - begin), kIgnore);
    for (int64_t i = done; i < end; ++i) {
      labels[static_cast<size_t>(i - begin)] = ids[static_cast<size_t>(i)];
    }
    ModelInput input;
    input.input_ids = Tensor::from(std::vector<int64_t>(ids.begin() + begin, ids.begin() + end),
                                   {1, end - begin});
    input.labels = Tensor::from(labels, {1, end - begin});
    input.want_logits = false;
    const double loss = model.forward(input).loss.item();
    check(std::isfinite(loss), kPerplexity, "the model's loss is not finite at token {}", begin);
    sum += loss * static_cast<double>(end - done);
    done = end;
    if (progress) {
      progress(done);
    }
  }
  result.tokens = count - 1;
  result.context = context;
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

}  // namespace heed
