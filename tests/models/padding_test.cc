#include <gtest/gtest.h>

#include "models/cases.h"

namespace heed::test {
namespace {

class Padding : public testing::TestWithParam<const char*> {};

/// The row alone, without padding.
ModelInput alone(const ModelInput& input, int64_t row) {
  const int64_t source = real_length(input.attention_mask, row, input.input_ids.size(1));
  ModelInput one;
  one.input_ids = row_of(input.input_ids, row, source);
  one.token_type_ids = row_of(input.token_type_ids, row, source);
  if (input.decoder_input_ids.defined()) {
    const int64_t target =
        real_length(input.decoder_attention_mask, row, input.decoder_input_ids.size(1));
    one.decoder_input_ids = row_of(input.decoder_input_ids, row, target);
  }
  return one;
}

/// A sentence gives the same bits alone, padded in a batch, and with padding left out.
TEST_P(Padding, ChangesNoBit) {
  const NoGrad no_grad;
  Case given = load_case(GetParam());
  given.input.labels = {};
  const ModelOutput padded = given.model->forward(given.input);
  given.input.skip_padding = true;
  const ModelOutput skipped = given.model->forward(given.input);
  const int64_t batch = given.input.input_ids.size(0);
  bool any_padding = false;
  for (int64_t row = 0; row < batch; ++row) {
    const ModelInput one = alone(given.input, row);
    any_padding = any_padding || one.input_ids.size(1) < given.input.input_ids.size(1);
    const ModelOutput expected = given.model->forward(one);
    auto compare = [&](const Tensor& want, const Tensor& full, const Tensor& skip,
                       const char* what) {
      ASSERT_EQ(want.defined(), full.defined()) << what;
      if (want.defined()) {
        // One logit per token is [B, T], too.
        const bool per_token = want.rank() == 3 || want.size(1) != full.size(1);
        const int64_t length = per_token ? want.size(1) : 0;
        expect_same_bits(row_of(full, row, length), want, std::string(what) + " padded");
        expect_same_bits(row_of(skip, row, length), want, std::string(what) + " skipped");
      }
    };
    compare(expected.logits, padded.logits, skipped.logits, "logits");
    compare(expected.last_hidden_state, padded.last_hidden_state, skipped.last_hidden_state,
            "last_hidden_state");
    compare(expected.pooler_output, padded.pooler_output, skipped.pooler_output, "pooler_output");
    compare(expected.encoder_last_hidden_state, padded.encoder_last_hidden_state,
            skipped.encoder_last_hidden_state, "encoder_last_hidden_state");
  }
  EXPECT_TRUE(any_padding);
}

class PaddingLoss : public testing::TestWithParam<const char*> {};

TEST_P(PaddingLoss, IsTheSame) {
  Case given = load_case(GetParam(), true);
  const double full = given.model->forward(given.input).loss.item();
  given.input.skip_padding = true;
  const double skipped = given.model->forward(given.input).loss.item();
  EXPECT_NEAR(full, skipped, 1e-6 * full);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Padding,
    testing::Values("models/bert_base", "models/bert_mlm", "models/bert_classify",
                    "models/bert_tag", "models/distilbert_base", "models/distilbert_mlm",
                    "models/distilbert_classify", "models/roberta_base", "models/roberta_classify",
                    "models/mpnet_base", "models/mpnet_mlm", "models/albert_tag",
                    "models/modernbert_base", "models/modernbert_classify",
                    "models/deberta_classify", "models/deberta_tag", "models/deberta_base",
                    "models/longformer_mlm", "models/longformer_classify", "models/gpt2_lm",
                    "models/llama_gqa", "models/mistral_window", "models/llama_tied",
                    "models/t5_relu", "models/t5_gated", "models/marian", "models/marian_unscaled",
                    "training/seq2seq", "training/rnn_seq2seq"),
    case_name);

INSTANTIATE_TEST_SUITE_P(Models, PaddingLoss,
                         testing::Values("models/bert_mlm", "models/bert_classify",
                                         "models/electra_replaced", "models/mpnet_tag",
                                         "models/deberta_mlm", "models/distilbert_mlm",
                                         "models/gpt2_lm", "models/llama_gqa", "models/t5_gated",
                                         "models/marian", "training/seq2seq",
                                         "training/rnn_seq2seq"),
                         case_name);

}  // namespace
}  // namespace heed::test
