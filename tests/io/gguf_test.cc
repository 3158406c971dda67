#include "io/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "heed/ops.h"
#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

TEST(Gguf, ReadsTheVocabularyOfGpt2) {
  HEED_NEEDS_SHARED("tokenizers/gpt-2.gguf");
  const GgufFile file(test::shared_data("tokenizers/gpt-2.gguf"));
  EXPECT_EQ(file.string("general.architecture"), "gpt2");
  EXPECT_EQ(file.string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens").size(), 50257u);
  EXPECT_EQ(file.strings("tokenizer.ggml.tokens").back(), "<|endoftext|>");
  EXPECT_EQ(file.strings("tokenizer.ggml.merges").size(), 50000u);
  EXPECT_EQ(file.integers("tokenizer.ggml.token_type", 0, 10).size(), 50257u);
  EXPECT_TRUE(file.tensors().empty());
}

TEST(Gguf, ReadsTheVocabulariesOfBertAndLlama) {
  HEED_NEEDS_SHARED("tokenizers/llama-spm.gguf");
  const GgufFile llama(test::shared_data("tokenizers/llama-spm.gguf"));
  EXPECT_EQ(llama.string("general.architecture"), "llama");
  EXPECT_EQ(llama.strings("tokenizer.ggml.tokens").size(), 32000u);
  EXPECT_EQ(llama.numbers("tokenizer.ggml.scores").size(), 32000u);
  EXPECT_GT(llama.number("llama.attention.layer_norm_rms_epsilon", 0, 1), 0);
  const GgufFile bert(test::shared_data("tokenizers/bert-bge.gguf"));
  EXPECT_EQ(bert.string("general.architecture"), "bert");
  EXPECT_EQ(bert.strings("tokenizer.ggml.tokens").size(), 30522u);
}

TEST(Gguf, RoundTripKeepsValuesAndTensors) {
  const test::TemporaryFolder folder;
  GgufWriter writer;
  writer.string("general.architecture", "llama");
  writer.u32("llama.block_count", 2);
  writer.u64("big", uint64_t{1} << 40);
  writer.f32("eps", 1e-6f);
  writer.boolean("flag", true);
  writer.strings("tokens", {"a", "", "가나"});
  writer.i32s("types", {1, -2, 3});
  writer.f32s("scores", {0.5f, -1.0f});
  TensorMap tensors;
  for (const DType type :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}) {
    tensors[std::string(name_of(type))] = Tensor::arange(6, type).alias({2, 3}, {3, 1}, 0);
  }
  const Tensor ramp = Tensor::arange(192, DType::f32).alias({3, 64}, {64, 1}, 0);
  tensors["q8"] = quantize(ramp, DType::q8_0);
  tensors["q4"] = quantize(ramp, DType::q4_0);
  tensors["scalar"] = Tensor::scalar(7);
  tensors["empty"] = Tensor::zeros({0, 4});
  tensors["transposed"] = Tensor::arange(6, DType::f32).alias({3, 2}, {1, 3}, 0);
  for (const auto& [name, tensor] : tensors) {
    writer.tensor(name, tensor);
  }
  writer.write(folder / "m.gguf");

  const GgufFile file(folder / "m.gguf");
  EXPECT_EQ(file.values().size(), 8u);
  EXPECT_EQ(file.integer("llama.block_count", 1, 100), 2);
  EXPECT_EQ(file.integer("big", 0, int64_t{1} << 41), int64_t{1} << 40);
  EXPECT_EQ(file.number("eps", 0, 1), static_cast<double>(1e-6f));
  EXPECT_TRUE(file.boolean("flag"));
  EXPECT_EQ(file.strings("tokens"), (std::vector<std::string>{"a", "", "가나"}));
  EXPECT_EQ(file.integers("types", -9, 9), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file.numbers("scores"), (std::vector<double>{0.5, -1.0}));
  EXPECT_EQ(file.integer_or("none", 4, 0, 9), 4);
  EXPECT_EQ(file.string_or("none", "x"), "x");
  EXPECT_EQ(file.number_or("none", 0.5, 0, 1), 0.5);
  EXPECT_TRUE(file.boolean_or("none", true));
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& back = file.tensors().at(name);
    const Tensor flat = tensor.contiguous();
    EXPECT_EQ(back.shape(), tensor.shape()) << name;
    EXPECT_EQ(back.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(std::memcmp(back.raw(), flat.raw(), static_cast<size_t>(flat.bytes())), 0) << name;
  }
}

TEST(Gguf, CopiedValuesAreTheSameBytes) {
  HEED_NEEDS_SHARED("tokenizers/gpt-2.gguf");
  const test::TemporaryFolder folder;
  const GgufFile file(test::shared_data("tokenizers/gpt-2.gguf"));
  GgufWriter writer;
  for (const auto& [key, value] : file.values()) {
    writer.value(key, value);
  }
  writer.write(folder / "copy.gguf");
  const GgufFile copy(folder / "copy.gguf");
  ASSERT_EQ(copy.values().size(), file.values().size());
  for (const auto& [key, value] : file.values()) {
    const GgufValue& other = copy.values().at(key);
    ASSERT_EQ(other.data.size(), value.data.size()) << key;
    EXPECT_EQ(std::memcmp(other.data.data(), value.data.data(), value.data.size()), 0) << key;
  }
}

TEST(Gguf, WriterRefusesWhatAReaderWould) {
  GgufWriter writer;
  writer.u32("a", 1);
  EXPECT_ERROR(writer.u32("a", 2), "gguf: key 'a' is written twice");
  EXPECT_ERROR(writer.u32("", 2), "gguf: '' cannot be a key");
  EXPECT_ERROR(writer.u32("general.alignment", 3),
               "gguf: general.alignment is set by the writer; leave it out");
  writer.tensor("t", Tensor::scalar(1));
  EXPECT_ERROR(writer.tensor("t", Tensor::scalar(1)), "gguf: tensor 't' is written twice");
  EXPECT_ERROR(writer.tensor(std::string(64, 'x'), Tensor::scalar(1)),
               "gguf: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' cannot");
  EXPECT_ERROR(writer.tensor("u", Tensor::zeros({1, 1, 1, 1, 1})),
               "gguf: tensor 'u' has more than 4 axes or no value");
  EXPECT_ERROR(writer.tensor("u", Tensor::zeros({1}, DType::u8)), "gguf: cannot hold u8 tensors");
  EXPECT_ERROR(writer.tensor("u", Tensor()), "gguf: tensor 'u' has more than 4 axes or no value");
}

/// A model in three files, the second tensor in the last of them.
void write_shards(const test::TemporaryFolder& folder, uint32_t last_number, uint32_t tensors) {
  for (uint32_t number = 0; number < 3; ++number) {
    GgufWriter writer;
    if (number == 0) {
      writer.string("general.architecture", "llama");
      writer.u32("split.tensors.count", tensors);
    }
    writer.u32("split.no", number == 2 ? last_number : number);
    writer.u32("split.count", 3);
    if (number != 1) {
      writer.tensor(number == 0 ? "a" : "b", Tensor::full({2}, number));
    }
    writer.write(folder / ("m-0000" + std::to_string(number + 1) + "-of-00003.gguf"));
  }
}

TEST(Gguf, OpensAModelInSeveralFilesByAnyOfThem) {
  const test::TemporaryFolder folder;
  write_shards(folder, 2, 2);
  for (const char* name : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const GgufFile file(folder / name);
    EXPECT_EQ(file.string("general.architecture"), "llama");
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensors().at("b").to_vector<float>(), (std::vector<float>{2, 2}));
  }
}

TEST(Gguf, RefusesFilesThatAreNotOneModel) {
  const auto message = [](const std::filesystem::path& path) {
    try {
      const GgufFile file(path);
      return std::string("opened");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const test::TemporaryFolder folder;
  const auto first = folder / "m-00001-of-00003.gguf";
  write_shards(folder, 1, 2);
  EXPECT_NE(message(first).find("is not file 3 of 3"), std::string::npos) << message(first);
  write_shards(folder, 2, 3);
  EXPECT_NE(message(first).find("hold 2 tensors"), std::string::npos) << message(first);
  write_shards(folder, 2, 2);
  std::filesystem::rename(first, folder / "other.gguf");
  EXPECT_NE(message(folder / "other.gguf").find("name must end in -00001-of-00003.gguf"),
            std::string::npos);
  EXPECT_NE(message(folder / "m-00003-of-00003.gguf").find("m-00001-of-00003.gguf"),
            std::string::npos);
  std::filesystem::rename(folder / "other.gguf", first);
  std::filesystem::remove(folder / "m-00002-of-00003.gguf");
  EXPECT_NE(message(first).find("m-00002-of-00003.gguf is missing"), std::string::npos);
}

}  // namespace
}  // namespace heed
