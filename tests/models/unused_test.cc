#include <gtest/gtest.h>

#include "heed/io.h"
#include "heed/models.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

TEST(UnusedTensors, AreNamedWithTheReason) {
  const auto folder = golden("models/bert_mlm");
  TensorMap tensors = load_safetensors(folder / "model.safetensors");
  tensors.emplace("cls.seq_relationship.weight", Tensor::zeros({2, 18}));
  tensors.emplace("bert.embeddings.position_ids", Tensor::zeros({1, 16}, DType::i64));
  const auto model = build_model(load_model(folder)->config(), tensors, "file");
  ASSERT_EQ(model->unused_tensors().size(), 2u);
  const UnusedTensor& constant = model->unused_tensors()[0];
  EXPECT_EQ(constant.name, "bert.embeddings.position_ids");
  EXPECT_TRUE(constant.recomputed);
  const UnusedTensor& head = model->unused_tensors()[1];
  EXPECT_EQ(head.name, "cls.seq_relationship.weight");
  EXPECT_FALSE(head.recomputed);
  EXPECT_FALSE(head.reason.empty());
}

TEST(UnusedTensors, MasksThatHeedComputesAreNotLost) {
  const auto folder = golden("models/gpt2_lm");
  TensorMap tensors = load_safetensors(folder / "model.safetensors");
  tensors.emplace("transformer.h.0.attn.bias", Tensor::ones({1, 1, 16, 16}));
  const auto model = build_model(load_model(folder)->config(), tensors, "file");
  ASSERT_EQ(model->unused_tensors().size(), 1u);
  EXPECT_TRUE(model->unused_tensors()[0].recomputed);
}

TEST(UnusedTensors, AModelThatReadsEverythingHasNone) {
  for (const char* name : {"marian", "marian_positions", "bart", "m2m_100", "whisper"}) {
    EXPECT_TRUE(load_model(golden(std::string("models/") + name))->unused_tensors().empty())
        << name;
  }
}

TEST(UnusedTensors, PositionsThatAFileStoresAreUsed) {
  const auto model = load_model(golden("models/marian_positions"));
  bool found = false;
  for (const Parameter& parameter : model->parameters()) {
    found = found || parameter.name == "model.encoder.embed_positions.weight";
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace heed::test
