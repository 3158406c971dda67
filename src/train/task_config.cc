#include "train/task_config.h"

#include "base/check.h"
#include "io/json.h"
#include "models/files.h"

namespace heed {
namespace {

int64_t inner_width(const TrainOptions& o) { return o.ff > 0 ? o.ff : 4 * o.width; }

/// Sides of a patch that give at least seven by seven of them, the largest first.
int64_t patch_for(int64_t side) {
  constexpr int64_t kFewest = 7;
  for (const int64_t patch : {16, 8, 4, 2}) {
    if (side % patch == 0 && side / patch >= kFewest) {
      return patch;
    }
  }
  return 1;
}

/// model_type of a model to start from; those that are built and trained alike count as one.
std::string family_of(const std::string& from) {
  const ModelFiles files = find_model_files(from);
  const std::string type = Json::parse(files.config, files.config_name).string_or("model_type", "");
  return type == "distilbert" ? "bert" : type == "mistral" ? "llama" : type;
}

}  // namespace

std::string chosen_arch(const TrainOptions& o, std::initializer_list<const char*> known) {
  const std::string from = o.from.empty() ? std::string() : family_of(o.from);
  for (const char* name : known) {
    if ((o.arch.empty() ? from : o.arch) == name) {
      if (!o.arch.empty() && !from.empty() && o.arch != from) {
        fail(ErrorKind::usage, "--arch", "'{}' was given, but {} is a {}; leave --arch out", o.arch,
             o.from, from);
      }
      return name;
    }
  }
  if (o.arch.empty()) {
    check_data(from.empty() || from == "heed-encoder" || from == "heed-reader", o.from,
               "a {} does not do task {}; use {}", from, o.task, fmt::join(known, ", "));
    return *known.begin();
  }
  fail(ErrorKind::usage, "--arch", "'{}' does not do task {}; use {}", o.arch, o.task,
       fmt::join(known, ", "));
}

int32_t first_of(std::initializer_list<std::optional<int32_t>> ids, int32_t otherwise) {
  for (const auto& id : ids) {
    if (id) {
      return *id;
    }
  }
  return otherwise;
}

SequenceTokens sequence_tokens(const Tokenizer& t) {
  const SpecialTokens& s = t.special();
  SequenceTokens tokens;
  tokens.padding = first_of({s.pad, s.eos}, 0);
  tokens.start = first_of({s.bos, s.cls, s.pad, s.eos}, 0);
  tokens.end = first_of({s.eos, s.sep}, -1);
  return tokens;
}

SequenceTokens sequence_tokens(const Tokenizer& tokenizer, const Model& model) {
  SequenceTokens tokens = sequence_tokens(tokenizer);
  const Json config = Json::parse(model.config(), "config.json");
  const int64_t most = std::max<int64_t>(model.vocab_size(), 1) - 1;
  auto take = [&](const char* key, int32_t& id) {
    const auto found = config.find(key);
    if (found && found->is_integer()) {
      id = static_cast<int32_t>(found->integer(0, most));
    }
  };
  take("pad_token_id", tokens.padding);
  take("decoder_start_token_id", tokens.start);
  take("eos_token_id", tokens.end);
  return tokens;
}

void add_token_ids(Config& config, const SequenceTokens& tokens) {
  config["pad_token_id"] = tokens.padding;
  config["decoder_start_token_id"] = tokens.start;
  config["bos_token_id"] = tokens.start;
  if (tokens.end >= 0) {
    config["eos_token_id"] = tokens.end;
  }
}

Config stack_config(const TrainOptions& o, const std::string& type, int64_t vocabulary) {
  Config config;
  config["model_type"] = type;
  config["vocab_size"] = vocabulary;
  config["d_model"] = o.width;
  config["max_position_embeddings"] = o.context;
  for (const char* side : {"encoder", "decoder"}) {
    config[std::string(side) + "_layers"] = o.layers;
    config[std::string(side) + "_attention_heads"] = o.heads;
    config[std::string(side) + "_ffn_dim"] = inner_width(o);
  }
  config["dropout"] = o.dropout;
  config["scale_embedding"] = true;
  if (type == "t5") {
    config["d_kv"] = o.width / o.heads;
    config["d_ff"] = inner_width(o);
    config["num_layers"] = config["num_decoder_layers"] = o.layers;
    config["num_heads"] = o.heads;
    config["dropout_rate"] = o.dropout;
  }
  if (type == "heed-rnn-seq2seq") {
    config["hidden_size"] = config["attention_size"] = o.width;
    config["attention"] = "bahdanau";
  }
  return config;
}

Config bert_config(const TrainOptions& o, int64_t vocabulary, const char* architecture) {
  Config config;
  config["model_type"] = "bert";
  config["architectures"] = {architecture};
  config["vocab_size"] = vocabulary;
  config["hidden_size"] = o.width;
  config["num_hidden_layers"] = o.layers;
  config["num_attention_heads"] = o.heads;
  config["intermediate_size"] = inner_width(o);
  config["max_position_embeddings"] = o.context;
  config["hidden_dropout_prob"] = o.dropout;
  config["attention_probs_dropout_prob"] = o.dropout;
  return config;
}

Config lm_config(const TrainOptions& o, const std::string& type, int64_t vocabulary) {
  Config config;
  config["model_type"] = type;
  config["vocab_size"] = vocabulary;
  if (type == "gpt2") {
    config["architectures"] = {"GPT2LMHeadModel"};
    config["n_embd"] = o.width;
    config["n_layer"] = o.layers;
    config["n_head"] = o.heads;
    config["n_positions"] = o.context;
    config["n_inner"] = inner_width(o);
    for (const char* name : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) {
      config[name] = o.dropout;
    }
    return config;
  }
  config["architectures"] = {"LlamaForCausalLM"};
  config["hidden_size"] = o.width;
  config["num_hidden_layers"] = o.layers;
  config["num_attention_heads"] = o.heads;
  config["num_key_value_heads"] = o.heads;
  config["intermediate_size"] = inner_width(o);
  config["max_position_embeddings"] = o.context;
  config["rms_norm_eps"] = 1e-5;
  config["tie_word_embeddings"] = true;
  return config;
}

Config vit_config(const TrainOptions& o, int64_t side, int64_t channels) {
  Config config;
  config["model_type"] = "vit";
  config["hidden_size"] = o.width;
  config["num_hidden_layers"] = o.layers;
  config["num_attention_heads"] = o.heads;
  config["intermediate_size"] = inner_width(o);
  config["hidden_dropout_prob"] = o.dropout;
  config["attention_probs_dropout_prob"] = 0.0;
  config["image_size"] = side;
  config["patch_size"] = patch_for(side);
  config["num_channels"] = channels;
  return config;
}

Config captioner_config(const TrainOptions& o, int64_t side, int64_t channels, int64_t vocabulary) {
  Config config;
  config["model_type"] = "vision-encoder-decoder";
  config["architectures"] = {"VisionEncoderDecoderModel"};
  config["is_encoder_decoder"] = true;
  config["tie_word_embeddings"] = false;
  config["encoder"] = vit_config(o, side, channels);
  config["encoder"]["architectures"] = {"ViTModel"};  // by Hugging Face's names, without classes
  Config decoder = lm_config(o, "gpt2", vocabulary);
  decoder.erase("architectures");
  decoder["add_cross_attention"] = decoder["is_decoder"] = true;
  config["decoder"] = decoder;
  return config;
}

void add_labels(Config& config, const std::vector<std::string>& labels) {
  config["id2label"] = config["label2id"] = Config::object();
  for (size_t i = 0; i < labels.size(); ++i) {
    config["id2label"][std::to_string(i)] = labels[i];
    config["label2id"][labels[i]] = i;
  }
  config["num_labels"] = labels.size();
}

}  // namespace heed
