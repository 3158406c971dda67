#include "base/check.h"
#include "models/encoder.h"
#include "models/fresh_config.h"

namespace heed {

EncoderNames roberta_names(const std::string& base) {
  EncoderNames names;
  names.base = base;
  names.pooler = "pooler.dense";
  names.lm_dense = "lm_head.dense";
  names.lm_norm = "lm_head.layer_norm";
  names.lm_decoder = "lm_head.decoder";
  names.lm_bias = "lm_head.bias";
  names.sequence_dense = "classifier.dense";
  names.sequence_out = "classifier.out_proj";
  return names;
}

EncoderConfig bert_like_config(const Json& config, const std::string& family,
                               const EncoderNames& names) {
  for (const char* flag : {"is_decoder", "add_cross_attention"}) {
    check_data(!config.boolean_or(flag, false), config.file(),
               "{}: {} as a decoder is not supported", flag, family);
  }
  check_data(config.string_or("position_embedding_type", "absolute") == "absolute", config.file(),
             "position_embedding_type must be absolute");
  EncoderConfig c;
  c.family = family;
  c.names = names;
  c.vocab_size = size_of(config, "vocab_size");
  c.hidden_size = size_of(config, "hidden_size");
  c.num_layers = layer_count(config, "num_hidden_layers");
  c.num_heads = size_of(config, "num_attention_heads");
  head_dim(config, "hidden_size", c.hidden_size, "num_attention_heads", c.num_heads);
  c.intermediate_size = size_of(config, "intermediate_size");
  c.context_length = size_of(config, "max_position_embeddings");
  c.token_types = config.integer_or("type_vocab_size", 2, 0, 1 << 24);
  c.norm.eps = positive_or(config, "layer_norm_eps", 1e-12);
  c.init = Init::normal(positive_or(config, "initializer_range", 0.02));
  c.dropout = rate_or(config, "hidden_dropout_prob", 0.1);
  c.attention_dropout = rate_or(config, "attention_probs_dropout_prob", 0.1);
  c.classifier_dropout = rate_or(config, "classifier_dropout", c.dropout);
  c.activation = c.lm_activation = activation_of(config, "hidden_act", "gelu");
  c.padding = padding_token(config, 0, c.vocab_size);
  c.tied = config.boolean_or("tie_word_embeddings", true);
  return c;
}

void use_roberta_positions(EncoderConfig& c, const Json& config, std::optional<int64_t> padding) {
  c.padding = padding;
  check_data(padding.has_value(), config.file(),
             "pad_token_id is null; {} counts positions from it", c.family);
  check_data(c.context_length > *padding + 1, config.file(),
             "max_position_embeddings {} leaves no position behind pad_token_id {}",
             c.context_length, *padding);
  c.context_length -= *padding + 1;
  c.positions_after_padding = true;
}

namespace {

std::vector<ModelHead> encoder_heads(const std::string& family, const EncoderNames& n) {
  std::vector<ModelHead> heads = {{family + "ForMaskedLM", "fill-mask", n.lm_dense + "."}};
  if (!n.replaced_dense.empty()) {
    heads.push_back({family + "ForPreTraining", "", n.replaced_dense + "."});
  }
  if (!n.question_out.empty() && n.question_out != n.token_out) {
    heads.push_back({family + "ForQuestionAnswering", "question-answering", n.question_out + "."});
  }
  heads.push_back({family + "ForSequenceClassification", "text-classification",
                   n.sequence_out + ".",
                   n.sequence_dense.empty() ? n.pooler + "." : n.sequence_dense + "."});
  heads.push_back({family + "ForTokenClassification", "token-classification", n.token_out + "."});
  heads.push_back({family + "Model", "", ""});
  return heads;
}

}  // namespace

ModelSpec bert_like_spec(const std::string& model_type, const std::string& family,
                         const EncoderNames& names,
                         const std::function<EncoderConfig(const Json& config)>& read) {
  ModelSpec spec;
  spec.model_type = model_type;
  spec.kind = ModelKind::encoder;
  spec.heads = encoder_heads(family, names);
  spec.ties = {.prefix = names.base + ".",
               .embedding = names.words + ".weight",
               .lm_head = names.lm_decoder + ".weight"};
  spec.train_tasks = {"mlm", "classify", "embed"};
  spec.fresh_tokenizer = "wordpiece:8192";
  spec.fresh_config = [model_type, family](const FreshSizes& sizes) {
    return bert_like_fresh_config(model_type, family, sizes);
  };
  spec.make = [read](const Json& config, const Scope& scope) {
    return make_encoder(config, scope, read(config));
  };
  return spec;
}

}  // namespace heed
