#include <gtest/gtest.h>

#include <fstream>

#include "heed/generate.h"
#include "heed/runtime.h"
#include "models/gguf/model.h"
#include "support/data.h"

namespace heed::test {
namespace {

constexpr const char* kConfig =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 97,
        "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 2048})";

std::vector<SampledToken> run(Scheduler& scheduler, int64_t length) {
  std::vector<SampledToken> tokens;
  Request request;
  for (int64_t i = 0; i < length; ++i) {
    request.prompt.push_back((i * i + 3 * i) % 97);
  }
  request.max_tokens = 6;
  request.on_token = [&](const SampledToken& token) {
    tokens.push_back(token);
    return true;
  };
  scheduler.add(std::move(request));
  scheduler.run();
  return tokens;
}

std::string refusal(const Model& model, const std::filesystem::path& file) {
  Scheduler scheduler(model);
  scheduler.share_prefixes(64 << 20);
  try {
    scheduler.load_prefixes(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(PromptCache, AnotherProcessNeedNotReadThePromptAgain) {
  const auto model = create_model(kConfig, 5);
  const TemporaryFolder work;
  Scheduler first(*model);
  first.share_prefixes(64 << 20);
  const auto expected = run(first, 300);
  run(first, 40);
  first.save_prefixes(work / "cache");

  Scheduler second(*model);
  second.share_prefixes(64 << 20);
  second.load_prefixes(work / "cache");
  const auto found = run(second, 300);
  EXPECT_EQ(second.shared_tokens(), 299);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].id, expected[i].id);
    EXPECT_EQ(found[i].log_probability, expected[i].log_probability);  // the same bits
  }
}

TEST(PromptCache, OfAnotherModelOrDamagedIsRefused) {
  const auto model = create_model(kConfig, 5);
  const TemporaryFolder work;
  const std::filesystem::path file = work / "cache";
  Scheduler scheduler(*model);
  scheduler.share_prefixes(64 << 20);
  run(scheduler, 50);
  scheduler.save_prefixes(file);
  EXPECT_EQ(refusal(*model, file), "nothing was refused");
  EXPECT_EQ(refusal(*create_model(kConfig, 6), file),
            file.string() +
                ": belongs to another model (a llama with other weights than this llama); use "
                "another file");

  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 4);
  std::ofstream(work / "damaged", std::ios::binary) << bytes;
  EXPECT_EQ(refusal(*model, work / "damaged"),
            (work / "damaged").string() + ": does not match its checksum; delete it");
  std::ofstream(work / "text") << "no cache at all";
  EXPECT_NE(refusal(*model, work / "text"), "nothing was refused");
}

TEST(PromptCache, QuantisedMatricesThatAreUsedTransposed) {
  const TemporaryFolder work;
  const auto plain = create_model(
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 97,
          "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512})",
      5);
  GgufWriter writer;
  gguf::add_model(writer, *plain, gguf::StoredTypes(DType::q8_0));
  writer.write(work / "model.gguf");
  const auto model = load_model(work / "model.gguf");
  Scheduler first(*model);
  first.share_prefixes(64 << 20);
  run(first, 40);
  first.save_prefixes(work / "cache");
  EXPECT_EQ(refusal(*model, work / "cache"), "nothing was refused");
  EXPECT_NE(refusal(*plain, work / "cache"), "nothing was refused");
}

}  // namespace
}  // namespace heed::test
