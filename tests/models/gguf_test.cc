#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "heed/runtime.h"
#include "io/json.h"
#include "models/gguf/model.h"
#include "models/gguf/names.h"
#include "support/check.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

void write_gguf(const Model& model, const std::filesystem::path& path, DType type) {
  GgufWriter writer;
  gguf::add_model(writer, model, gguf::StoredTypes(type));
  writer.write(path);
}

Tensor results(const Model& model, const Tensor& ids) {
  ModelInput input;
  input.input_ids = ids;
  if (model.kind() == ModelKind::encoder_decoder) {
    input.decoder_input_ids = slice(ids, 1, 1, 4).contiguous();
  }
  const ModelOutput output = model.forward(input);
  return output.logits.defined() ? output.logits : output.last_hidden_state;
}

class GgufModel : public testing::TestWithParam<const char*> {};

TEST_P(GgufModel, FolderToGgufToFolderKeepsEveryBit) {
  const auto folder = golden(std::string("models/") + GetParam());
  const auto model = load_model(folder);
  const TemporaryFolder out;
  write_gguf(*model, out / "model.gguf", DType::f32);
  const auto read = load_model(out / "model.gguf");
  const Tensor ids = random_indices({2, 7}, model->vocab_size(), 5);
  expect_same_bits(results(*read, ids), results(*model, ids), "results");
  save_model(*read, out / "folder");
  const TensorMap before = load_safetensors(folder / "model.safetensors");
  const TensorMap after = load_safetensors(out / "folder/model.safetensors");
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    expect_same_bits(after.at(name), tensor, name);
  }
}

TEST_P(GgufModel, TrainsFromGguf) {
  const auto folder = golden(std::string("models/") + GetParam());
  const auto model = load_model(folder);
  const TemporaryFolder out;
  write_gguf(*model, out / "model.gguf", DType::f32);
  const auto read = load_model(out / "model.gguf", {.trainable = true});
  const Tensor ids = random_indices({1, 5}, model->vocab_size(), 5);
  backward(sum(results(*read, ids)));
  for (const Parameter& parameter : read->parameters()) {
    EXPECT_TRUE(parameter.tensor.is_contiguous()) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GgufModel,
                         testing::Values("gpt2_lm", "gpt2_untied", "llama_gqa", "llama_tied",
                                         "llama_theta", "mistral_window", "bert_base", "bert_mlm",
                                         "bert_tag", "bert_classify", "modernbert_base",
                                         "modernbert_mlm", "modernbert_classify", "modernbert_tag",
                                         "qwen2", "qwen3", "phi", "phi3", "smollm3", "olmo2",
                                         "granite", "exaone4", "gpt_neox", "gpt_neox_sequential",
                                         "gptj", "bloom", "falcon_grouped", "falcon_multi_query",
                                         "starcoder2", "t5_relu"),
                         [](const auto& each) { return each.param; });

/// RoBERTa's rows of positions up to the padding token are not kept: they embed padding only.
class RobertaGguf : public testing::TestWithParam<const char*> {};

TEST_P(RobertaGguf, GivesTheSameResultsAndIsABertForOthers) {
  const auto folder = golden(std::string("models/") + GetParam());
  const auto model = load_model(folder);
  const TemporaryFolder out;
  write_gguf(*model, out / "model.gguf", DType::f32);
  const auto read = load_model(out / "model.gguf");
  EXPECT_EQ(read->model_type(), model->model_type());
  EXPECT_EQ(read->context_length(), model->context_length());
  const int64_t padding = model->config().integer_or("pad_token_id", 1, 0, 36);
  Tensor ids = random_indices({2, 7}, model->vocab_size(), 5);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    ids.data<int64_t>()[i] += ids.data<int64_t>()[i] == padding ? 1 : 0;
  }
  expect_same_bits(results(*read, ids), results(*model, ids), "results");
  const GgufFile file(out / "model.gguf");
  EXPECT_EQ(file.string("general.architecture"), "bert");
  EXPECT_EQ(file.tensors().at("position_embd.weight").size(0), model->context_length());
  save_model(*read, out / "folder");
  const TensorMap before = load_safetensors(folder / "model.safetensors");
  const TensorMap after = load_safetensors(out / "folder/model.safetensors");
  EXPECT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name).shape(), tensor.shape()) << name;
    if (!name.ends_with("position_embeddings.weight")) {
      expect_same_bits(after.at(name), tensor, name);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, RobertaGguf,
                         testing::Values("roberta_base", "roberta_mlm", "roberta_classify",
                                         "roberta_tag", "xlm_roberta_mlm", "camembert_mlm"),
                         [](const auto& each) { return each.param; });

/// A T5 with a gate and a head of its own, as T5 1.1 is; and what GGUF has no place for.
TEST(T5Gguf, KeepsBothStacks) {
  const auto make = [](const char* kind, int64_t distance) {
    return create_model(
        fmt::format(R"({{"model_type":"t5","vocab_size":37,"d_model":16,"d_kv":4,"d_ff":20,
            "num_layers":2,"num_decoder_layers":3,"num_heads":3,"feed_forward_proj":"{}",
            "relative_attention_max_distance":{},"tie_word_embeddings":false}})",
                    kind, distance),
        3);
  };
  const auto model = make("gated-gelu", 128);
  const TemporaryFolder out;
  write_gguf(*model, out / "model.gguf", DType::f32);
  const GgufFile file(out / "model.gguf");
  for (const char* name :
       {"enc.blk.1.ffn_gate.weight", "dec.blk.2.cross_attn_q.weight", "enc.blk.0.attn_rel_b.weight",
        "dec.output_norm.weight", "output.weight"}) {
    EXPECT_TRUE(file.tensors().contains(name)) << name;
  }
  const Tensor ids = random_indices({2, 7}, 37, 5);
  expect_same_bits(results(*load_model(out / "model.gguf"), ids), results(*model, ids), "results");
  EXPECT_ERROR(write_gguf(*make("gated-silu", 128), out / "other.gguf", DType::f32),
               "gguf: has no place for T5's feed_forward_proj 'gated-silu'");
  EXPECT_ERROR(write_gguf(*make("relu", 64), out / "other.gguf", DType::f32),
               "gguf: has no place for T5's relative_attention_max_distance 64, only for 128");
}

constexpr const char* kGpt2 = R"({"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":4,
    "n_positions":16,"vocab_size":37})";
constexpr const char* kLlama = R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":2,
    "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":96,
    "max_position_embeddings":32,"vocab_size":37})";

constexpr const char* kWide = R"({"model_type":"llama","hidden_size":256,"num_hidden_layers":9,
    "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":288,
    "max_position_embeddings":32,"vocab_size":37})";

/// Q4_K_M as llama.cpp mixes it: ffn_down's rows of 288 are no superblocks and fall back.
TEST(GgufMixture, GivesMoreBitsWhereTheyMatter) {
  const auto model = create_model(kWide, 3);
  const TemporaryFolder out;
  GgufWriter writer;
  gguf::add_model(writer, *model, gguf::StoredTypes::named("q4_k_m"));
  writer.write(out / "model.gguf");
  const GgufFile file(out / "model.gguf");
  EXPECT_EQ(file.integer("general.file_type", 0, 100), 15);
  const auto type = [&](const std::string& name) { return file.tensors().at(name).dtype(); };
  EXPECT_EQ(type("blk.4.attn_q.weight"), DType::q4_k);
  EXPECT_EQ(type("blk.4.ffn_up.weight"), DType::q4_k);
  EXPECT_EQ(type("output_norm.weight"), DType::f32);
  // Of 9 layers an eighth is 1: layer 0, 3 and 6 (every third), 7 and 8 (from 7 · 9 / 8 on).
  const std::set<int> more{0, 3, 6, 7, 8};
  for (int layer = 0; layer < 9; ++layer) {
    const std::string block = "blk." + std::to_string(layer);
    EXPECT_EQ(type(block + ".attn_v.weight"), more.contains(layer) ? DType::q6_k : DType::q4_k);
    EXPECT_EQ(type(block + ".ffn_down.weight"), more.contains(layer) ? DType::q8_0 : DType::q5_0);
  }
  const bool tied = !file.tensors().contains("output.weight");
  EXPECT_EQ(type(tied ? "token_embd.weight" : "output.weight"), DType::q6_k);
  const auto read = load_model(out / "model.gguf");
  const Tensor ids = random_indices({2, 7}, model->vocab_size(), 5);
  EXPECT_EQ(results(*read, ids).shape(), results(*model, ids).shape());
}

TEST(GgufMixture, KeepsTypesWhereNoneIsAskedFor) {
  const auto model = create_model(kWide, 3);
  const TemporaryFolder out;
  GgufWriter first;
  gguf::add_model(first, *model, gguf::StoredTypes::named("q5_k_m"));
  first.write(out / "first.gguf");
  GgufWriter second;
  gguf::add_model(second, *load_model(out / "first.gguf"), gguf::StoredTypes());
  second.write(out / "second.gguf");
  const GgufFile a(out / "first.gguf");
  const GgufFile b(out / "second.gguf");
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (const auto& [name, tensor] : a.tensors()) {
    EXPECT_EQ(b.tensors().at(name).dtype(), tensor.dtype()) << name;
  }
}

TEST(GgufMixture, RowsThatAreNoSuperblocksFallBack) {
  const std::tuple<DType, DType> pairs[] = {
      {DType::q4_k, DType::q5_0}, {DType::q5_k, DType::q5_1}, {DType::q6_k, DType::q8_0},
      {DType::q2_k, DType::q4_0}, {DType::q3_k, DType::q4_0}, {DType::iq4_xs, DType::iq4_nl},
  };
  for (const auto& [type, instead] : pairs) {
    EXPECT_EQ(gguf::fitting_type(type, 512), type);
    EXPECT_EQ(gguf::fitting_type(type, 288), instead);
    EXPECT_EQ(gguf::fitting_type(type, 100), DType::f16);
  }
}

TEST(GgufMixture, ReadsAnImportanceMatrix) {
  const TemporaryFolder out;
  const auto write = [&](const char* type, float count, const Tensor& sums) {
    GgufWriter writer;
    writer.string("general.type", type);
    writer.tensor("blk.0.attn_q.weight.in_sum2", sums);
    writer.tensor("blk.0.attn_q.weight.counts", Tensor::full({1, 1}, count));
    writer.write(out / "m.gguf");
    return out / "m.gguf";
  };
  const auto read = gguf::read_importance(write("imatrix", 4.0f, Tensor::full({1, 8}, 2.0)));
  EXPECT_EQ(read.at("blk.0.attn_q.weight").to_vector<float>(), std::vector<float>(8, 0.5f));
  EXPECT_ERROR(gguf::read_importance(write("model", 4.0f, Tensor::zeros({1, 8}))),
               "is not an importance matrix: general.type is not 'imatrix'");
  EXPECT_ERROR(gguf::read_importance(write("imatrix", 0.0f, Tensor::zeros({1, 8}))),
               "tensor 'blk.0.attn_q.weight.in_sum2' has sums or counts that are negative or not");
  EXPECT_ERROR(gguf::read_importance(write("imatrix", 1.0f, Tensor::full({1, 8}, -1.0))),
               "tensor 'blk.0.attn_q.weight.in_sum2' has sums or counts that are negative or not");
  EXPECT_ERROR(gguf::read_importance(write("imatrix", 1.0f, Tensor::zeros({2, 8}))),
               "tensor 'blk.0.attn_q.weight.in_sum2' [2, 8] is not one row of f32 with one count");
}

class Quantised : public testing::TestWithParam<std::tuple<const char*, DType>> {};

/// A model of short types gives what its weights give in f32, to the bit. With quantised weights
/// the activations are rounded too, by up to 1/254 of the largest in their block: about half a per
/// cent of a product's norm, and two products follow one another in each of the two blocks.
TEST_P(Quantised, GivesWhatItsWeightsGive) {
  const auto& [config, type] = GetParam();
  const auto model = create_model(config, 3);
  const TemporaryFolder out;
  write_gguf(*model, out / "model.gguf", type);
  const auto read = load_model(out / "model.gguf");
  bool any = false;
  TensorMap weights;
  for (const Parameter& parameter : read->parameters()) {
    any = any || parameter.tensor.dtype() == type;
    weights.emplace(parameter.name, dequantize(parameter.tensor).contiguous());
  }
  EXPECT_TRUE(any);
  const Tensor ids = random_indices({2, 9}, model->vocab_size(), 5);
  const Tensor actual = results(*read, ids);
  const Tensor expected = results(*build_model(config, weights, "weights"), ids);
  if (is_quantized(type)) {
    expect_norm_close(actual, expected, 0.02, "logits");
  } else {
    expect_norm_close(actual, expected, 1e-6, "logits");  // 16-bit weights: another order of sums
  }
  const double allowed = type == DType::q4_0 ? 0.3 : type == DType::f32 ? 1e-6 : 0.02;
  expect_norm_close(actual, results(*model, ids), allowed, "against the exact model");
}

INSTANTIATE_TEST_SUITE_P(
    Models, Quantised,
    testing::Combine(testing::Values(kGpt2, kLlama),
                     testing::Values(DType::f16, DType::bf16, DType::q8_0, DType::q4_0)),
    [](const auto& each) {
      const bool llama =
          std::string_view(std::get<0>(each.param)).find("llama") != std::string::npos;
      return (llama ? "llama_" : "gpt2_") + std::string(name_of(std::get<1>(each.param)));
    });

/// The file of a small Llama with one thing changed before it is written.
class Broken {
 public:
  Broken() { write_gguf(*create_model(kLlama, 3), folder_ / "good.gguf", DType::f32); }

  /// Copies the good file with other metadata or tensors.
  void write(const std::function<bool(GgufWriter&, const std::string&)>& metadata,
             const std::function<bool(GgufWriter&, const std::string&)>& tensors) {
    const GgufFile good(folder_ / "good.gguf");
    GgufWriter writer;
    for (const auto& [key, value] : good.values()) {
      if (key != "general.alignment" && (!metadata || !metadata(writer, key))) {
        writer.value(key, value);
      }
    }
    for (const auto& [name, tensor] : good.tensors()) {
      if (!tensors || !tensors(writer, name)) {
        writer.tensor(name, tensor);
      }
    }
    writer.write(folder_ / "bad.gguf");
  }
  void expect_refused(const std::vector<std::string>& words) {
    try {
      load_model(folder_ / "bad.gguf");
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << "'" << word << "' is not in: " << error.what();
      }
    }
  }
  void change_count(const std::string& key, uint32_t value) {
    write(
        [&](GgufWriter& writer, const std::string& each) {
          if (each == key) {
            writer.u32(key, value);
          }
          return each == key;
        },
        nullptr);
  }

 private:
  TemporaryFolder folder_;
};

TEST(GgufFaults, Fault30BlockCount) {
  Broken broken;
  for (const uint32_t count : {1000000000u, 0u, 4096u, 3u}) {
    broken.change_count("llama.block_count", count);
    broken.expect_refused({"bad.gguf"});
  }
}

TEST(GgufFaults, Fault31MissingOrMisshapenTensorIsNamed) {
  Broken broken;
  broken.write(nullptr,
               [](GgufWriter&, const std::string& name) { return name == "blk.1.ffn_up.weight"; });
  broken.expect_refused({"bad.gguf", "blk.1.ffn_up.weight", "[96, 64]"});
  broken.write(nullptr, [](GgufWriter& writer, const std::string& name) {
    if (name == "blk.0.attn_q.weight") {
      writer.tensor(name, Tensor::zeros({62, 64}));
    }
    return name == "blk.0.attn_q.weight";
  });
  broken.expect_refused({"bad.gguf", "attn_q"});
  broken.write(nullptr,
               [](GgufWriter&, const std::string& name) { return name == "token_embd.weight"; });
  broken.expect_refused({"bad.gguf", "token_embd.weight"});
}

TEST(GgufFaults, HeadsThatDoNotFit) {
  Broken broken;
  broken.change_count("llama.attention.head_count", 0);
  broken.expect_refused({"bad.gguf", "head_count"});
  broken.change_count("llama.attention.head_count", 5);
  broken.expect_refused({"bad.gguf"});
  broken.change_count("llama.attention.head_count_kv", 3);
  broken.expect_refused({"bad.gguf"});
}

TEST(GgufFaults, Fault44UnknownArchitecture) {
  Broken broken;
  broken.write(
      [](GgufWriter& writer, const std::string& key) {
        if (key == "general.architecture") {
          writer.string(key, "mamba");
        }
        return key == "general.architecture";
      },
      nullptr);
  broken.expect_refused({"bad.gguf", "mamba", "gpt2", "llama", "bert"});
}

TEST(GgufNames, TranslateBothWays) {
  for (const auto& [architecture, name] :
       {std::pair{"gpt2", "blk.11.attn_qkv.bias"}, std::pair{"llama", "blk.0.ffn_gate.weight"},
        std::pair{"bert", "blk.3.layer_output_norm.weight"},
        std::pair{"bert", "cls.output.bias"}}) {
    const auto there = gguf::checkpoint_name(find_model_spec(architecture)->gguf, name);
    ASSERT_TRUE(there) << name;
    EXPECT_EQ(gguf::gguf_name(find_model_spec(architecture)->gguf, there->text)->text, name);
  }
  EXPECT_FALSE(gguf::checkpoint_name(find_model_spec("llama")->gguf, "blk.x.attn_q.weight"));
  EXPECT_FALSE(gguf::checkpoint_name(find_model_spec("llama")->gguf, "blk.1"));
}

}  // namespace
}  // namespace heed::test
