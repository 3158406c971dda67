#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"
#include "heed/ops.h"
#include "io/json.h"
#include "models/gguf/model.h"
#include "models/gguf/names.h"

namespace heed::gguf {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;

/// Metadata of one architecture by the ends of its keys.
class Reader {
 public:
  Reader(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return file_.has(key(name)); }
  int64_t size_of(std::string_view name) const { return file_.integer(key(name), 1, kMaxSize); }
  int64_t size_or(std::string_view name, int64_t otherwise) const {
    return file_.integer_or(key(name), otherwise, 1, kMaxSize);
  }
  double number_or(std::string_view name, double otherwise) const {
    return file_.number_or(key(name), otherwise, 0.0, 1e12);
  }
  std::string string_or(std::string_view name, std::string_view otherwise) const {
    return file_.string_or(key(name), otherwise);
  }
  /// Rows of a matrix that says how large a table is.
  int64_t rows(std::string_view tensor) const {
    const auto found = file_.tensors().find(tensor);
    check_data(found != file_.tensors().end() && found->second.rank() == 2, file_.file(),
               "tensor {} is missing or no matrix", quote(tensor));
    return found->second.size(0);
  }
  bool has_tensor(std::string_view name) const {
    return file_.tensors().find(name) != file_.tensors().end();
  }
  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

void add_gpt2(const Reader& from, nlohmann::json& config) {
  config["model_type"] = "gpt2";
  config["n_embd"] = from.size_of("embedding_length");
  config["n_layer"] = from.size_of("block_count");
  config["n_head"] = from.size_of("attention.head_count");
  config["n_inner"] = from.size_of("feed_forward_length");
  config["n_positions"] = from.size_of("context_length");
  config["layer_norm_epsilon"] = from.number_or("attention.layer_norm_epsilon", 1e-5);
  config["tie_word_embeddings"] = !from.has_tensor("output.weight");
  config.emplace("architectures", nlohmann::json::array({"GPT2LMHeadModel"}));
  config.emplace("activation_function", "gelu_new");
}

/// Rotary scaling that transformers can read too.
void add_rope_scaling(const Reader& from, nlohmann::json& config) {
  if (config.contains("rope_scaling") || config.contains("rope_parameters")) {
    return;  // the configuration that came along is more exact
  }
  const auto factors = from.file().tensors().find("rope_freqs.weight");
  if (factors != from.file().tensors().end()) {
    const std::vector<double> values = dequantize(factors->second).to_doubles();
    config["rope_scaling"] = {{"rope_type", "longrope"},
                              {"short_factor", values},
                              {"long_factor", values},
                              {"attention_factor", 1.0}};
    return;
  }
  const std::string type = from.string_or("rope.scaling.type", "none");
  if (type == "linear") {
    config["rope_scaling"] = {{"rope_type", "linear"},
                              {"factor", from.number_or("rope.scaling.factor", 1.0)}};
  } else {
    check_data(type == "none", from.file().file(),
               "{} {} is not supported; heed knows none and linear", from.key("rope.scaling.type"),
               quote(type));
  }
}

void add_llama(const Reader& from, nlohmann::json& config) {
  const int64_t width = from.size_of("embedding_length");
  const int64_t heads = from.size_of("attention.head_count");
  config["hidden_size"] = width;
  config["num_hidden_layers"] = from.size_of("block_count");
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = from.size_or("attention.head_count_kv", heads);
  config["intermediate_size"] = from.size_of("feed_forward_length");
  config["max_position_embeddings"] = from.size_of("context_length");
  config["head_dim"] =
      from.size_or("attention.key_length", from.size_or("rope.dimension_count", width / heads));
  config["rms_norm_eps"] = from.number_or("attention.layer_norm_rms_epsilon", 1e-6);
  const double theta = from.number_or("rope.freq_base", 10000.0);
  if (config.contains("rope_parameters") && config["rope_parameters"].is_object()) {
    config["rope_parameters"]["rope_theta"] = theta;
  } else {
    config["rope_theta"] = theta;
  }
  add_rope_scaling(from, config);
  config["tie_word_embeddings"] = !from.has_tensor("output.weight");
  config["attention_bias"] = from.has_tensor("blk.0.attn_q.bias");
  const bool windowed = from.has("attention.sliding_window");
  const bool mistral = windowed || config.value("model_type", "") == "mistral";
  config["model_type"] = mistral ? "mistral" : "llama";
  if (mistral) {
    config["sliding_window"] =
        windowed ? nlohmann::json(from.size_of("attention.sliding_window")) : nlohmann::json();
  }
  config.emplace("architectures",
                 nlohmann::json::array({mistral ? "MistralForCausalLM" : "LlamaForCausalLM"}));
  config.emplace("hidden_act", "silu");
}

void add_bert(const Reader& from, nlohmann::json& config) {
  config["model_type"] = "bert";
  config["hidden_size"] = from.size_of("embedding_length");
  config["num_hidden_layers"] = from.size_of("block_count");
  config["num_attention_heads"] = from.size_of("attention.head_count");
  config["intermediate_size"] = from.size_of("feed_forward_length");
  config["max_position_embeddings"] = from.size_of("context_length");
  config["layer_norm_eps"] = from.number_or("attention.layer_norm_epsilon", 1e-12);
  config["type_vocab_size"] = from.rows("token_types.weight");
  config.emplace("architectures", nlohmann::json::array({"BertModel"}));
  config.emplace("hidden_act", "gelu");
}

/// The ids of the vocabulary's special tokens, where the configuration does not say them.
void add_token_ids(const GgufFile& file, nlohmann::json& config) {
  const std::pair<const char*, const char*> ids[] = {
      {"tokenizer.ggml.bos_token_id", "bos_token_id"},
      {"tokenizer.ggml.eos_token_id", "eos_token_id"},
      {"tokenizer.ggml.padding_token_id", "pad_token_id"},
  };
  for (const auto& [key, name] : ids) {
    if (file.has(key)) {
      config.emplace(name, file.integer(key, 0, kMaxSize));
    }
  }
}

std::string architecture_of(const GgufFile& file) {
  std::string name = file.string("general.architecture");
  check_data(is_known(name), file.file(), "general.architecture {} is not supported; heed knows {}",
             quote(name), fmt::join(architectures(), ", "));
  return name;
}

/// config.json as heed put it into the file, overruled by what the file's own metadata says.
nlohmann::json config_of(const GgufFile& file, const std::string& architecture) {
  nlohmann::json config = nlohmann::json::object();
  constexpr const char* kOwn = "heed.config";
  if (file.has(kOwn)) {
    const Json own = Json::parse(file.string(kOwn), file.file());
    check_data(own.is_object(), file.file(), "{} is no JSON object", kOwn);
    config = raw(own);
  }
  const Reader from(file, architecture);
  config["vocab_size"] = from.rows("token_embd.weight");
  if (architecture == "gpt2") {
    add_gpt2(from, config);
  } else if (architecture == "llama") {
    add_llama(from, config);
  } else {
    add_bert(from, config);
  }
  add_token_ids(file, config);
  return config;
}

Tensor turned_back(const Tensor& tensor, Turn turn, int64_t heads, int64_t key_heads) {
  switch (turn) {
    case Turn::transposed:
      return tensor.rank() == 2 ? transpose(tensor) : tensor;
    case Turn::query_pairs:
      return rows_in_halves(tensor, heads);
    case Turn::key_pairs:
      return rows_in_halves(tensor, key_heads);
    case Turn::none:
      break;
  }
  return tensor;
}

/// By the checkpoint's names; names that mean nothing stay, so that the model's error lists them.
TensorMap tensors_of(const GgufFile& file, const std::string& architecture,
                     const nlohmann::json& config) {
  const int64_t heads = config.value("num_attention_heads", int64_t{1});
  const int64_t key_heads = config.value("num_key_value_heads", heads);
  TensorMap tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name == "rope_freqs.weight") {
      continue;  // in the configuration
    }
    const auto known = checkpoint_name(architecture, name);
    const bool turns =
        known && (known->turn == Turn::query_pairs || known->turn == Turn::key_pairs);
    const int64_t groups = !known || known->turn == Turn::query_pairs ? heads : key_heads;
    check_data(!turns || (tensor.rank() > 0 && tensor.size(0) % (2 * groups) == 0), file.file(),
               "tensor {} {} is not {} heads of an even width", quote(name), tensor.shape(),
               groups);
    tensors.emplace(known ? known->text : name,
                    known ? turned_back(tensor, known->turn, heads, key_heads) : tensor);
  }
  return tensors;
}

}  // namespace

ModelFiles model_files(const std::filesystem::path& path) {
  const auto file = std::make_shared<GgufFile>(path);
  const std::string architecture = architecture_of(*file);
  const nlohmann::json config = config_of(*file, architecture);
  ModelFiles files;
  files.config = config.dump(2);
  files.config_name = file->file();
  files.weights_name = file->file();
  files.tensors = [file, architecture, config] { return tensors_of(*file, architecture, config); };
  return files;
}

}  // namespace heed::gguf
