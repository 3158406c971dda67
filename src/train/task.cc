#include "train/task.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/json.h"

namespace heed {
namespace {

using Config = nlohmann::ordered_json;

std::string chosen_arch(const TrainOptions& o, std::initializer_list<const char*> known) {
  if (o.arch.empty()) {
    return *known.begin();
  }
  for (const char* name : known) {
    if (o.arch == name) {
      return o.arch;
    }
  }
  fail(ErrorKind::usage, "--arch", "'{}' does not do task {}; use {}", o.arch, o.task,
       fmt::join(known, ", "));
}

int64_t inner_width(const TrainOptions& o) { return o.ff > 0 ? o.ff : 4 * o.width; }

/// The tokenizer of --from, of a file, or one trained on `texts`.
Tokenizer choose_tokenizer(const TrainOptions& o, const char* otherwise,
                           const std::vector<std::string>& texts) {
  if (o.tokenizer.empty() && !o.from.empty()) {
    return Tokenizer::load(o.from);
  }
  const std::string kind = o.tokenizer.empty() ? otherwise : o.tokenizer;
  if (std::filesystem::exists(kind)) {
    return Tokenizer::load(kind);
  }
  TokenizerTraining training = parse_tokenizer_kind(kind);
  if (o.vocab > 0) {
    training.vocab_size = o.vocab;
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return train_tokenizer(std::span<const std::string_view>(views), training);
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

void add_token_ids(Config& config, const SequenceTokens& tokens) {
  config["pad_token_id"] = tokens.padding;
  config["decoder_start_token_id"] = tokens.start;
  config["bos_token_id"] = tokens.start;
  if (tokens.end >= 0) {
    config["eos_token_id"] = tokens.end;
  }
}

/// Configuration of a stack in Marian's names, which the tutorials' models share.
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

void add_labels(Config& config, const std::vector<std::string>& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    config["id2label"][std::to_string(i)] = labels[i];
    config["label2id"][labels[i]] = i;
  }
  config["num_labels"] = labels.size();
}

std::unique_ptr<Model> make_or_load(const TrainOptions& o, const Config& config) {
  std::unique_ptr<Model> model = o.from.empty() ? create_model(config.dump(), o.seed)
                                                : load_model(o.from, {.trainable = true});
  model->set_recompute(o.recompute);
  return model;
}

/// Options of the two loaders: a share of the data or a set of its own for validation.
LoaderOptions loader_options(const TrainOptions& o, bool validation) {
  LoaderOptions options;
  options.batch = o.batch;
  options.seed = o.seed;
  options.max_length = o.context;
  options.shuffle = !validation;
  if (o.validation.empty() && o.validation_share > 0.0) {
    options.validation = o.validation_share;
    options.part = validation ? Part::validation : Part::train;
  }
  return options;
}

bool has_validation(const TrainOptions& o) {
  return !o.validation.empty() || o.validation_share > 0.0;
}

/// Makes both loaders with make(data, loader options).
template <class Make>
void add_loaders(Task& task, const TrainOptions& o, const Make& make) {
  task.train = make(o.data, loader_options(o, false));
  if (has_validation(o)) {
    task.validation = make(o.validation.empty() ? o.data : o.validation, loader_options(o, true));
  }
}

Task language_task(const TrainOptions& o, bool masked) {
  Task task;
  const std::string arch = masked ? chosen_arch(o, {"bert"}) : chosen_arch(o, {"gpt2", "llama"});
  task.tokenizer = choose_tokenizer(o, masked ? "wordpiece:8192" : "bpe:8192", read_texts(o.data));
  const int64_t vocabulary = task.tokenizer.vocab_size();
  Config config =
      masked ? bert_config(o, vocabulary, "BertForMaskedLM") : lm_config(o, arch, vocabulary);
  const SpecialTokens& special = task.tokenizer.special();
  if (special.eos) {
    config["eos_token_id"] = *special.eos;
  }
  task.model = make_or_load(o, config);
  Masking masking;
  if (masked) {
    check_data(special.mask.has_value(), "tokenizer", "has no [MASK] token, which task mlm needs");
    masking.mask = *special.mask;
    masking.vocabulary = vocabulary;
    masking.first = first_of({special.cls}, -1);
    masking.last = first_of({special.sep}, -1);
    for (const auto& id : {special.cls, special.sep, special.pad, special.mask, special.unk}) {
      if (id) {
        masking.keep.push_back(*id);
      }
    }
  }
  add_loaders(task, o, [&](const std::string& data, const LoaderOptions& loader) {
    const TokenShard text = load_text(data, task.tokenizer);
    return masked ? make_mlm_loader(text, o.context, masking, loader)
                  : make_lm_loader(text, o.context, loader);
  });
  return task;
}

Task translate_task(const TrainOptions& o) {
  const std::string arch = chosen_arch(o, {"heed-seq2seq", "marian", "t5", "heed-rnn-seq2seq"});
  std::vector<std::string> texts;
  for (const TextPair& pair : read_pairs(o.data)) {
    texts.push_back(pair.source);
    texts.push_back(pair.target);
  }
  Task task;
  task.tokenizer = choose_tokenizer(o, "bpe:8192", texts);
  const SequenceTokens tokens = sequence_tokens(task.tokenizer);
  Config config = stack_config(o, arch, task.tokenizer.vocab_size());
  config["decoder_vocab_size"] = task.tokenizer.vocab_size();
  config["share_encoder_decoder_embeddings"] = true;
  if (arch == "t5") {
    config["d_kv"] = o.width / o.heads;
    config["d_ff"] = inner_width(o);
    config["num_layers"] = config["num_decoder_layers"] = o.layers;
    config["num_heads"] = o.heads;
    config["dropout_rate"] = o.dropout;
  }
  if (arch == "heed-rnn-seq2seq") {
    config["hidden_size"] = config["attention_size"] = o.width;
    config["attention"] = "bahdanau";
  }
  add_token_ids(config, tokens);
  task.model = make_or_load(o, config);
  add_loaders(task, o, [&](const std::string& data, const LoaderOptions& loader) {
    return make_pair_loader(load_pairs(data, task.tokenizer, task.tokenizer), tokens, loader);
  });
  return task;
}

Task classify_task(const TrainOptions& o) {
  const std::string arch = chosen_arch(o, {"heed-sentiment", "bert"});
  std::vector<std::string> texts;
  for (LabelledText& row : read_labelled(o.data)) {
    texts.push_back(std::move(row.text));
  }
  Task task;
  task.classifies = true;
  task.tokenizer = choose_tokenizer(o, "wordpiece:8192", texts);
  const LabelledData data = load_labelled(o.data, task.tokenizer);
  const int64_t vocabulary = task.tokenizer.vocab_size();
  Config config = arch == "bert" ? bert_config(o, vocabulary, "BertForSequenceClassification")
                                 : stack_config(o, arch, vocabulary);
  add_labels(config, data.labels);
  task.model = make_or_load(o, config);
  add_loaders(task, o, [&](const std::string& path, const LoaderOptions& loader) {
    return make_class_loader(
        path == o.data ? data : load_labelled(path, task.tokenizer, data.labels),
        sequence_tokens(task.tokenizer), loader);
  });
  return task;
}

Task image_task(const TrainOptions& o) {
  chosen_arch(o, {"vit"});
  Task task;
  task.classifies = true;
  const ImageData data = load_image_classes(o.data);
  ImageOptions images;
  const bool in_memory = data.pixels.defined();
  constexpr int64_t kDefaultSize = 64;
  images.size = in_memory ? 0 : kDefaultSize;
  const int64_t side = in_memory ? data.pixels.size(2) : images.size;
  Config config;
  config["model_type"] = "vit";
  config["architectures"] = {"ViTForImageClassification"};
  config["hidden_size"] = o.width;
  config["num_hidden_layers"] = o.layers;
  config["num_attention_heads"] = o.heads;
  config["intermediate_size"] = inner_width(o);
  config["hidden_dropout_prob"] = o.dropout;
  config["attention_probs_dropout_prob"] = 0.0;
  config["image_size"] = side;
  config["patch_size"] = side % 4 == 0 ? side / 4 >= 7 ? 4 : 2 : 1;
  config["num_channels"] = in_memory ? data.pixels.size(1) : 3;
  add_labels(config, data.labels);
  task.model = make_or_load(o, config);
  add_loaders(task, o, [&](const std::string& path, const LoaderOptions& loader) {
    return make_image_loader(path == o.data ? data : load_image_classes(path, "t10k"), images,
                             loader);
  });
  return task;
}

Task regress_task(const TrainOptions& o) {
  Task task;
  Config config = stack_config(o, chosen_arch(o, {"heed-regressor"}), 1);
  config["input_size"] = config["output_size"] = 1;
  task.model = make_or_load(o, config);
  add_loaders(task, o, [&](const std::string& path, const LoaderOptions& loader) {
    return make_number_loader(load_numbers(path), loader);
  });
  return task;
}

}  // namespace

Task make_task(const TrainOptions& o) {
  if (o.task == "lm" || o.task == "mlm") {
    return language_task(o, o.task == "mlm");
  }
  if (o.task == "translate") {
    return translate_task(o);
  }
  if (o.task == "classify") {
    return classify_task(o);
  }
  if (o.task == "image-classify") {
    return image_task(o);
  }
  if (o.task == "regress") {
    return regress_task(o);
  }
  fail(ErrorKind::usage, "--task",
       "'{}' is not known; use lm, mlm, translate, classify, image-classify or regress", o.task);
}

ModelInput to_input(const Batch& batch, const TrainOptions& options, bool training) {
  ModelInput input;
  input.input_ids = batch.input_ids;
  input.attention_mask = batch.attention_mask;
  input.decoder_input_ids = batch.decoder_input_ids;
  input.decoder_attention_mask = batch.decoder_attention_mask;
  input.pixel_values = batch.pixel_values;
  input.features = batch.features;
  input.decoder_features = batch.decoder_features;
  input.labels = batch.labels;
  input.training = training;
  input.skip_padding = true;
  input.want_logits = false;
  input.label_smoothing = training ? options.label_smoothing : 0.0;
  return input;
}

}  // namespace heed
