#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/file.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

TEST(Safetensors, ReadsWhatHuggingFaceWrote) {
  const TensorMap tensors = load_safetensors(test::golden("models/gpt2_lm/inputs.safetensors"));
  ASSERT_TRUE(tensors.contains("input_ids"));
  EXPECT_EQ(tensors.at("input_ids").dtype(), DType::i64);
  const Metadata metadata = safetensors_metadata(test::golden("attention/scale.safetensors"));
  EXPECT_TRUE(metadata.contains("scale"));
}

TEST(Safetensors, RoundTripKeepsEveryBitOfEveryType) {
  const test::TemporaryFolder folder;
  TensorMap tensors;
  for (const DType type : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                           DType::u8, DType::boolean}) {
    tensors[std::string(name_of(type))] = Tensor::arange(type == DType::boolean ? 2 : 7, type);
  }
  tensors["scalar"] = Tensor::scalar(3.5);
  tensors["empty"] = Tensor::zeros({2, 0});
  tensors["이름 \"\\\n\x01"] = Tensor::scalar(1);
  save_safetensors(folder / "a.safetensors", tensors, {{"키", "값\t\""}});
  const TensorMap back = load_safetensors(folder / "a.safetensors");
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& other = back.at(name);
    EXPECT_EQ(other.dtype(), tensor.dtype());
    EXPECT_EQ(other.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(other.raw(), tensor.raw(), static_cast<size_t>(tensor.bytes())), 0)
        << name;
  }
  EXPECT_EQ(safetensors_metadata(folder / "a.safetensors"), (Metadata{{"키", "값\t\""}}));
  // A second writing of what was read gives the same file.
  save_safetensors(folder / "b.safetensors", back, {{"키", "값\t\""}});
  EXPECT_EQ(read_file(folder / "a.safetensors"), read_file(folder / "b.safetensors"));
}

TEST(Safetensors, WritesTheBytesThatHuggingFaceWrites) {
  for (const char* name : {"gpt2_lm", "t5_gated", "vit_gpt2"}) {
    const auto path = test::golden(std::string("models/") + name + "/model.safetensors");
    const test::TemporaryFolder folder;
    save_safetensors(folder / "copy", load_safetensors(path), safetensors_metadata(path));
    EXPECT_TRUE(read_file(folder / "copy") == read_file(path)) << name;
  }
}

TEST(Safetensors, WritesAViewAsItsElements) {
  const test::TemporaryFolder folder;
  const Tensor x = Tensor::arange(6, DType::f32);
  save_safetensors(folder / "a", {{"x", x.alias({3, 2}, {1, 3}, 0)}});
  EXPECT_EQ(load_safetensors(folder / "a").at("x").to_vector<float>(),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  const test::TemporaryFolder folder;
  EXPECT_ERROR(save_safetensors(folder / "a", {{"x", Tensor::zeros({32}, DType::q8_0)}}),
               "tensor 'x' is q8_0, which safetensors cannot hold; write GGUF instead");
  EXPECT_ERROR(save_safetensors(folder / "a", {{"__metadata__", Tensor::scalar(1)}}),
               "'__metadata__' cannot name a tensor");
  EXPECT_ERROR(save_safetensors(folder / "a", {{"\xff", Tensor::scalar(1)}}),
               "'\\xff' cannot name a tensor");
  EXPECT_ERROR(save_safetensors(folder / "a", {{"x", Tensor()}}), "tensor 'x' has no value");
  EXPECT_ERROR(save_safetensors(folder / "no" / "a", {{"x", Tensor::scalar(1)}}),
               "cannot be written: No such file or directory");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, TensorsOutliveTheMapThatNamedThem) {
  Tensor kept;
  {
    const test::TemporaryFolder folder;
    save_safetensors(folder / "a", {{"x", Tensor::full({1000}, 2.0)}});
    kept = load_safetensors(folder / "a").at("x");
  }
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(1000, 2.0f));
}

}  // namespace
}  // namespace heed
