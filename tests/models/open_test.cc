#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/file.h"
#include "heed/generate.h"
#include "heed/models.h"
#include "heed/runtime.h"
#include "io/json_writer.h"
#include "support/budget.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

/// Name and shape of every tensor of GPT-2's smallest model, 124 million weights.
std::vector<std::pair<std::string, std::vector<int64_t>>> gpt2_tensors() {
  std::vector<std::pair<std::string, std::vector<int64_t>>> all = {
      {"transformer.wte.weight", {50257, 768}},
      {"transformer.wpe.weight", {1024, 768}},
      {"transformer.ln_f.weight", {768}},
      {"transformer.ln_f.bias", {768}}};
  for (int layer = 0; layer < 12; ++layer) {
    const std::string block = "transformer.h." + std::to_string(layer) + ".";
    for (const auto& [name, in, out] :
         {std::tuple{"attn.c_attn", 768, 2304}, std::tuple{"attn.c_proj", 768, 768},
          std::tuple{"mlp.c_fc", 768, 3072}, std::tuple{"mlp.c_proj", 3072, 768}}) {
      all.push_back({block + name + ".weight", {in, out}});
      all.push_back({block + name + ".bias", {out}});
    }
    for (const char* name : {"ln_1", "ln_2"}) {
      all.push_back({block + name + ".weight", {768}});
      all.push_back({block + name + ".bias", {768}});
    }
  }
  return all;
}

/// A folder of that shape whose weights are a hole in the file: it takes no room on disk.
void write_sparse_model(const TemporaryFolder& folder) {
  JsonWriter json;
  json.begin_object();
  int64_t at = 0;
  for (const auto& [name, shape] : gpt2_tensors()) {
    int64_t bytes = 4;
    for (const int64_t dim : shape) {
      bytes *= dim;
    }
    json.key(name).begin_object().field("dtype", "F32").field("shape", shape);
    json.field("data_offsets", std::vector<int64_t>{at, at + bytes}).end_object();
    at += bytes;
  }
  std::string head = json.end_object().take();
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const uint64_t length = head.size();
  const std::filesystem::path path = folder / "model.safetensors";
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << head;
  }
  std::filesystem::resize_file(path, sizeof length + head.size() + static_cast<uint64_t>(at));
  write_file_atomically(folder / "config.json",
                        R"({"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,
                            "n_positions":1024,"vocab_size":50257})");
}

/// Memory that belongs to this process alone, in bytes.
int64_t private_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  int64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Private_")) {
      std::istringstream words(line.substr(line.find(':') + 1));
      int64_t kilobytes = 0;
      words >> kilobytes;
      sum += kilobytes * 1024;
    }
  }
  return sum;
}

TEST(OpenModel, HalfAGigabyteOpensWithoutTouchingAWeight) {
  const TemporaryFolder folder;
  write_sparse_model(folder);
  const int64_t before = private_memory();
  const auto model = load_model(folder.path());
  EXPECT_EQ(model->parameter_count(), 124439808);
  // Pages of the file count once they are read: nobody else maps it.
  EXPECT_LT(private_memory() - before, budget(int64_t{30} << 20));
}

/// The copy is the same model, and the file may go.
TEST(OpenModel, InMemoryGivesTheSameBitsWithoutTheFile) {
  const std::filesystem::path source = golden("models/gpt2_lm");
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(source / name, folder / name);
  }
  ModelInput input;
  input.input_ids = Tensor::from<int64_t>({1, 2, 3, 4}, {1, 4});
  const auto mapped = load_model(source);
  const auto copied = load_model(folder.path(), {.trainable = false, .in_memory = true});
  std::filesystem::resize_file(folder / "model.safetensors", 0);
  expect_same_bits(copied->forward(input).logits, mapped->forward(input).logits, "logits");
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "nothing";
}

TEST(OpenModel, AFileThatShrinksIsNoticedByThePassAndByTheToken) {
  const TemporaryFolder folder;
  save_model(*create_model(R"({"model_type": "gpt2", "vocab_size": 500, "n_embd": 64, "n_layer": 2,
                               "n_head": 2, "n_positions": 64})",
                           1),
             folder.path());
  const std::filesystem::path weights = folder / "model.safetensors";
  const auto model = load_model(folder.path());
  ModelInput input;
  input.input_ids = Tensor::from(std::vector<TokenId>{1, 2, 3}, {1, 3});
  EXPECT_NO_THROW(model->forward(input));
  Scheduler scheduler(*model);
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 20;
  int tokens = 0;
  request.on_token = [&](const SampledToken&) { return ++tokens < 20; };
  scheduler.add(request);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(scheduler.step());
  }
  const int before = tokens;
  EXPECT_GT(before, 0);
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) / 2);
  EXPECT_NE(error_of([&] { scheduler.step(); }).find("was truncated from"), std::string::npos);
  EXPECT_EQ(tokens, before) << "a token was made from zeros";
  EXPECT_NE(error_of([&] { model->forward(input); }).find("model.safetensors: was truncated from"),
            std::string::npos);
}

}  // namespace
}  // namespace heed::test
