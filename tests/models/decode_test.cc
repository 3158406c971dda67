#include <gtest/gtest.h>

#include "models/cases.h"
#include "support/error.h"

namespace heed::test {
namespace {

constexpr Tolerance kStep{1e-5, 1e-5};

/// ids [B, T] decoded in pieces: first some positions, more for one sequence than for the other,
/// then one at a time. Logits [B, T, vocabulary].
Tensor step_by_step(const Model& model, const ModelInput& input, const Tensor& ids) {
  const int64_t batch = ids.size(0);
  const int64_t length = ids.size(1);
  EncoderOutput memory;
  Pass pass;
  if (model.kind() != ModelKind::decoder) {
    memory = model.encode(input);
    pass.encoder_hidden_states = &memory.rows;
    pass.encoder_layout = &memory.layout;
  }
  std::vector<SequenceCache> caches;
  for (int64_t b = 0; b < batch; ++b) {
    caches.push_back(model.new_cache(length));
  }
  for (SequenceCache& cache : caches) {
    pass.caches.push_back(&cache);
  }
  std::vector<std::vector<Tensor>> rows(static_cast<size_t>(batch));
  std::vector<int64_t> done(static_cast<size_t>(batch), 0);
  while (*std::min_element(done.begin(), done.end()) < length) {
    // The first sequence starts with three positions at once, the others with one.
    std::vector<int64_t> counts, tokens;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t at = done[static_cast<size_t>(b)];
      counts.push_back(std::min<int64_t>(length - at, at == 0 && b == 0 ? 3 : 1));
      for (int64_t t = at; t < at + counts.back(); ++t) {
        tokens.push_back(ids.data<int64_t>()[b * length + t]);
      }
    }
    // A sequence that is through leaves the batch.
    std::vector<int64_t> active, lengths;
    pass.caches.clear();
    for (int64_t b = 0; b < batch; ++b) {
      if (counts[static_cast<size_t>(b)] > 0) {
        active.push_back(b);
        lengths.push_back(counts[static_cast<size_t>(b)]);
        pass.caches.push_back(&caches[static_cast<size_t>(b)]);
      }
    }
    pass.layout = Layout::ragged(lengths);
    const Tensor hidden =
        model.decode(Tensor::from(tokens, {static_cast<int64_t>(tokens.size())}), pass);
    pass.encoder_hidden_states = nullptr;
    const Tensor logits = model.logits(hidden);
    for (size_t i = 0; i < active.size(); ++i) {
      const auto b = static_cast<size_t>(active[i]);
      const auto sequence = static_cast<int64_t>(i);
      rows[b].push_back(
          slice(logits, 0, pass.layout.start(sequence), pass.layout.start(sequence + 1)));
      done[b] += lengths[i];
      EXPECT_EQ(caches[b].length, done[b]);
    }
  }
  std::vector<Tensor> sequences;
  for (const std::vector<Tensor>& parts : rows) {
    sequences.push_back(concat(parts, 0));
  }
  return stack(sequences, 0);
}

void expect_steps_equal_forward(const Model& model, ModelInput input, const Tensor& ids) {
  const NoGrad no_grad;
  input.labels = {};
  input.decoder_attention_mask = {};
  const Tensor expected = model.forward(input).logits;
  expect_close(step_by_step(model, input, ids.contiguous()), expected, kStep, "logits");
}

class Decode : public testing::TestWithParam<const char*> {};

TEST_P(Decode, StepByStepEqualsTheFullPass) {
  const Case given = load_case(GetParam());
  const ModelInput& input = given.input;
  expect_steps_equal_forward(*given.model, input, input.decoder_input_ids);
}

INSTANTIATE_TEST_SUITE_P(Models, Decode,
                         testing::Values("models/t5_relu", "models/t5_gated", "models/marian",
                                         "models/led", "models/marian_unscaled", "training/seq2seq",
                                         "training/rnn_seq2seq"),
                         case_name);

TEST(DecodeOne, Gpt2AndTheSimpleLanguageModel) {
  Case given = load_case("models/gpt2_lm");
  given.input.attention_mask = {};
  expect_steps_equal_forward(*given.model, given.input, given.input.input_ids);
  const auto simple = create_model(
      R"({"model_type": "heed-encoder", "head": "lm", "vocab_size": 37, "d_model": 12,
          "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 20,
          "max_position_embeddings": 16})",
      3);
  expect_steps_equal_forward(*simple, given.input, given.input.input_ids);
}

/// A Performer keeps a state of constant size instead of keys and values; steps of any length.
TEST(DecodeOne, Performer) {
  Case given = load_case("models/heed_performer_lm");
  given.input.attention_mask = {};
  expect_steps_equal_forward(*given.model, given.input, given.input.input_ids);
  EXPECT_TRUE(given.model->new_cache(1000).self.empty());
}

TEST(DecodeOne, Llama) {
  for (const char* name :
       {"models/llama_gqa", "models/llama_tied", "models/llama_theta", "models/mistral_window"}) {
    Case given = load_case(name);
    given.input.attention_mask = {};
    expect_steps_equal_forward(*given.model, given.input, given.input.input_ids);
  }
}

TEST(DecodeOne, VisionEncoderDecoder) {
  Case given = load_case("models/vit_gpt2");
  given.input.decoder_attention_mask = {};
  expect_steps_equal_forward(*given.model, given.input, given.input.decoder_input_ids);
}

TEST(DecodeOne, Captioner) {
  const auto model = create_model(
      R"({"model_type": "heed-captioner", "vocab_size": 23, "d_model": 12, "feature_size": 10,
          "decoder_layers": 2, "decoder_attention_heads": 3, "decoder_ffn_dim": 20})",
      5);
  ModelInput input;
  input.features = random_normal({2, 5, 10}, DType::f32, 7);
  input.attention_mask = Tensor::from<int64_t>({1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, {2, 5});
  input.decoder_input_ids = random_indices({2, 6}, 23, 8);
  expect_steps_equal_forward(*model, input, input.decoder_input_ids);
}

TEST(DecodeOne, ACopiedCacheGoesItsOwnWay) {
  for (const char* name : {"models/t5_relu", "training/rnn_seq2seq"}) {
    const NoGrad no_grad;
    const Case given = load_case(name);
    ModelInput one;
    one.input_ids = row_of(given.input.input_ids, 0, 0);
    const EncoderOutput memory = given.model->encode(one);
    SequenceCache cache = given.model->new_cache(8);
    Pass pass;
    pass.encoder_hidden_states = &memory.rows;
    pass.encoder_layout = &memory.layout;
    auto feed = [&](SequenceCache& into, int64_t id) {
      pass.layout = Layout::ragged({1});
      pass.caches = {&into};
      return given.model->logits(given.model->decode(Tensor::from<int64_t>({id}, {1}), pass));
    };
    feed(cache, 1);
    SequenceCache copy = cache.copy();
    const Tensor expected = feed(cache, 3);
    feed(copy, 5);
    SequenceCache again = given.model->new_cache(8);
    feed(again, 1);
    expect_same_bits(feed(again, 3), expected, name);
    EXPECT_EQ(copy.length, 2);
  }
}

TEST(DecodeOne, TheFirstPassNeedsTheEncoder) {
  const Case given = load_case("models/t5_relu");
  SequenceCache cache = given.model->new_cache(4);
  Pass pass;
  pass.layout = Layout::ragged({1});
  pass.caches = {&cache};
  EXPECT_ERROR(given.model->decode(Tensor::from<int64_t>({0}, {1}), pass),
               "attention: the first pass of a sequence needs the encoder's result");
}

}  // namespace
}  // namespace heed::test
