#include <gtest/gtest.h>

#include <map>

#include "heed/models.h"
#include "heed/runtime.h"
#include "models/gguf/stored_types.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

ModelInput some_input() {
  ModelInput input;
  input.input_ids = random_indices({2, 20}, 37);
  return input;
}

/// What is written is what quantising reads: mean squares of the inputs of every matrix, by GGUF's
/// names.
TEST(Importance, IsTheMeanSquareOfWhatAColumnIsMultipliedBy) {
  const auto model = load_model(golden("models/llama_gqa"));
  const NoGrad no_grad;
  std::map<const void*, Tensor> inputs;
  {
    const LinearInputScope scope(
        [&](const Tensor& weight, const Tensor& x) { inputs[weight.raw()] = x.clone(); });
    model->forward(some_input());
  }
  const TemporaryFolder work;
  {
    gguf::ImportanceCollector collector(*model);
    model->forward(some_input());
    collector.write(work / "importance.gguf", "text", 20);
  }
  model->forward(some_input());  // no longer counted
  const gguf::Importance found = gguf::read_importance(work / "importance.gguf");
  const std::map<std::string, std::string> names = {
      {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj.weight"},
      {"blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"}};
  EXPECT_EQ(found.size(), 2U * 7 + 1);  // and the head's, whose logits were asked for
  for (const auto& [gguf_name, name] : names) {
    for (const Parameter& parameter : model->parameters()) {
      if (parameter.name == name) {
        const Tensor x = inputs.at(parameter.tensor.raw());
        const Tensor rows = reshape(x, {-1, x.size(-1)});
        ASSERT_TRUE(found.contains(gguf_name)) << gguf_name;
        expect_close(found.find(gguf_name)->second, mean(mul(rows, rows), 0), {1e-5, 1e-7},
                     gguf_name);
      }
    }
  }
}

TEST(Importance, NeedsNamesOfGguf) {
  const auto model = load_model(golden("models/opt"));
  try {
    gguf::ImportanceCollector collector(*model);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "importance: GGUF has no names for the tensors of a opt");
  }
}

}  // namespace
}  // namespace heed::test
