#include <gtest/gtest.h>

#include <cmath>

#include "heed/generate.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// -log p of ids[at] after ids[begin … at), from the logits of a pass over just these.
double surprise(const Model& model, const std::vector<int64_t>& ids, int64_t begin, int64_t at) {
  const NoGrad no_grad;
  ModelInput input;
  input.input_ids =
      Tensor::from(std::vector<int64_t>(ids.begin() + begin, ids.begin() + at), {1, at - begin});
  const Tensor logits = log_softmax(model.forward(input).logits, -1);
  return -logits.to_doubles()[static_cast<size_t>((at - begin - 1) * model.vocab_size() +
                                                  ids[static_cast<size_t>(at)])];
}

TEST(PerplexityOfText, EveryTokenCountsOnceWithTheWindowBeforeIt) {
  const auto model = load_model(golden("generation/gpt2"));
  const std::vector<int64_t> ids =
      random_indices({23}, model->vocab_size(), 7).to_vector<int64_t>();
  for (const auto& [context, stride] : {std::pair{8, 4}, std::pair{8, 7}, std::pair{5, 1}}) {
    double sum = 0.0;
    int64_t done = 1;
    for (int64_t begin = 0; done < 23; begin += stride) {
      for (; done < std::min<int64_t>(begin + context, 23); ++done) {
        sum += surprise(*model, ids, begin, done);
      }
    }
    const Perplexity result = perplexity(*model, ids, context, stride);
    EXPECT_EQ(result.tokens, 22);
    EXPECT_NEAR(result.loss, sum / 22, 1e-5) << context << ", " << stride;
    EXPECT_NEAR(result.value(), std::exp(sum / 22), 1e-4 * std::exp(sum / 22));
  }
}

TEST(PerplexityOfText, RefusesWhatMakesNoSense) {
  const auto model = load_model(golden("generation/gpt2"));
  const std::vector<int64_t> ids{1, 2, 3};
  EXPECT_ERROR(perplexity(*model, {1}), "perplexity: a text of 1 tokens; at least 2 are needed");
  EXPECT_ERROR(perplexity(*model, ids, 1), "context: 1 is out of range; 2 to 32");
  EXPECT_ERROR(perplexity(*model, ids, model->context_length() + 1),
               "context: 33 is out of range; 2 to 32");
  EXPECT_ERROR(perplexity(*model, ids, 4, 4), "stride: 4 is out of range; 1 to 3");
  EXPECT_ERROR(perplexity(*load_model(golden("generation/t5")), ids),
               "perplexity: wants a model that continues text (gpt2, llama), not t5");
}

}  // namespace
}  // namespace heed::test
