#include <gtest/gtest.h>

#include <cstring>

#include "io/json.h"
#include "models/cases.h"

namespace heed::test {
namespace {

Tensor batch_of_one(const Tensor& ids) { return reshape(ids, {1, ids.size(0)}); }

/// all-MiniLM-L6-v2, a trained BERT in f16.
TEST(RealWeights, MiniLmGivesItsHiddenStates) {
  HEED_NEEDS_SHARED("minilm");
  const NoGrad no_grad;
  const auto model = load_model(shared_data("minilm"));
  const TensorMap expected = load_safetensors(shared_data("minilm") / "golden.safetensors");
  for (int sentence = 0; expected.contains(std::to_string(sentence) + ".input_ids"); ++sentence) {
    const std::string prefix = std::to_string(sentence) + ".";
    ModelInput input;
    input.input_ids = batch_of_one(expected.at(prefix + "input_ids"));
    const TensorMap actual = run_forward(*model, input, {.hidden_states = true});
    const Tensor last = select(actual.at("last_hidden_state"), 0, 0);
    expect_norm_close(last, expected.at(prefix + "last_hidden_state"), kModel, prefix);
    expect_norm_close(select(actual.at("pooler_output"), 0, 0),
                      expected.at(prefix + "pooler_output"), kModel, prefix);
    Tensor embedding = mean(last, 0);
    embedding = div(embedding, sqrt(sum(mul(embedding, embedding))));
    expect_norm_close(embedding, expected.at(prefix + "sentence_embedding"), kModel, prefix);
    for (int layer = 0; layer <= 6; ++layer) {
      const auto hidden = expected.find(prefix + "hidden_states." + std::to_string(layer));
      if (hidden != expected.end()) {
        expect_norm_close(select(actual.at("hidden_states." + std::to_string(layer)), 0, 0),
                          hidden->second, kModel, hidden->first);
      }
    }
  }
}

std::vector<uint8_t> from_base64(const std::string& text) {
  static const std::string kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const size_t value = kLetters.find(letter);
    if (value == std::string::npos) {
      break;
    }
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<uint8_t>(bits >> count));
    }
  }
  return bytes;
}

Tensor tensor_of(const Json& value) {
  const std::vector<int64_t> dims = value.at("shape").integers(0, 1 << 20);
  Tensor tensor = Tensor::empty(Shape(std::span<const int64_t>(dims)));
  const std::vector<uint8_t> bytes = from_base64(value.string("data"));
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), tensor.bytes());
  std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

/// Keeps activations and attention weights by name.
class Recorder final : public Observer {
 public:
  bool wants(const std::string&) override { return true; }
  Tensor activation(const std::string& name, const Tensor& value) override {
    seen.insert_or_assign(name, value);
    return value;
  }
  void attention(const std::string& name, const AttentionRecord& record) override {
    seen.insert_or_assign(name + ".weights", record.all_weights());
  }
  TensorMap seen;
};

/// A trained GPT that sorts letters, with PyTorch's activations of its first block and its results.
/// Its Linear weights are [out, in] where GPT-2's files have [in, out].
TEST(RealWeights, NanoSortGivesItsActivationsAndSorts) {
  HEED_NEEDS_SHARED("nano-sort");
  const Json file = Json::read(shared_data("nano-sort") / "gpt-nano-sort-model.json");
  TensorMap tensors;
  file.for_each([&](const std::string& name, const Json& value) {
    if (name == "config") {
      return;
    }
    Tensor tensor = tensor_of(value);
    const bool projection = name.find(".c_") != std::string::npos && tensor.rank() == 2;
    tensors.emplace(name, projection ? transpose(tensor).contiguous() : tensor);
  });
  const auto model = build_model(
      R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 3, "n_positions": 11,
          "vocab_size": 3, "tie_word_embeddings": false})",
      tensors, "nano-sort");
  const Json partials = Json::read(shared_data("nano-sort") / "gpt-nano-sort-t0-partials.json");
  auto expected = [&](const char* name) { return tensor_of(partials.at(name)); };
  ModelInput input;
  input.input_ids = expected("idx").to(DType::i64);
  const NoGrad no_grad;
  Recorder recorder;
  const ModelOutput output = model->forward(input);
  expect_norm_close(output.logits, expected("lm_head"), kModel, "logits");
  auto compare = [&](const char* hook, const char* name, bool heads = false) {
    const Tensor want = expected(name);
    Tensor actual = recorder.seen.at(hook);
    if (heads) {  // [B * T, H, d] -> [B, H, T, d]
      actual = transpose(reshape(actual, {3, 11, 3, 16}), 1, 2);
    }
    expect_norm_close(reshape(actual, want.shape()), want, kModel, name);
  };
  compare("hook_embed", "tok_emb");
  compare("blocks.0.ln1.hook_normalized", "ln1");
  compare("blocks.0.attn.hook_q", "q", true);
  compare("blocks.0.attn.hook_k", "k", true);
  compare("blocks.0.attn.hook_v", "v", true);
  compare("blocks.0.attn.weights", "attSm");
  compare("blocks.0.attn.hook_z", "y");
  compare("blocks.0.hook_attn_out", "yProj");
  compare("blocks.0.hook_resid_mid", "attnResid");
  compare("blocks.0.ln2.hook_normalized", "ln2");
  compare("blocks.0.mlp.hook_post", "gelu");
  compare("blocks.0.hook_mlp_out", "mlp");
  compare("blocks.0.hook_resid_post", "block0");
  compare("blocks.1.hook_resid_post", "block1");
  compare("blocks.2.hook_resid_post", "block2");
  compare("ln_final.hook_normalized", "ln_f");
  // The first six letters are the question; from the sixth on it writes them in order.
  ModelInput question;
  std::vector<int64_t> ids{2, 1, 0, 1, 2, 0};
  for (int i = 0; i < 6; ++i) {
    question.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
    const Tensor best = argmax(model->forward(question).logits, 2);
    ids.push_back(best.to_vector<int64_t>().back());
  }
  EXPECT_EQ(std::vector<int64_t>(ids.begin() + 6, ids.end()),
            (std::vector<int64_t>{0, 0, 1, 1, 2, 2}));
}

}  // namespace
}  // namespace heed::test
