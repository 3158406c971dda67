#include "models/encoder_head.h"

#include <algorithm>

#include "base/check.h"

namespace heed {

using Kind = EncoderHead::Kind;

Kind EncoderHead::kind_of(const Json& config, const Scope& root, const EncoderConfig& encoder) {
  const EncoderNames& n = encoder.names;
  const std::string& family = encoder.family;
  const auto has = [&](const std::string& name) {
    return !name.empty() && root.has(name + ".weight");
  };
  std::vector<std::pair<std::string, Kind>> known = {
      {family + "Model", Kind::none},
      {family + "ForMaskedLM", Kind::masked},
      {family + "ForPreTraining", n.replaced_out.empty() ? Kind::masked : Kind::replaced},
      {family + "ForSequenceClassification", Kind::sequence},
      {family + "ForTokenClassification", Kind::tokens},
  };
  if (!n.question_out.empty()) {
    known.emplace_back(family + "ForQuestionAnswering", Kind::question);
  }
  if (const auto named = named_head<Kind>(config, known)) {
    // A body that was saved alone under its task's config.json (all-mpnet-base-v2): its names lack
    // the prefix, and nothing of the head is there.
    const std::string& head = *named == Kind::masked     ? n.lm_dense
                              : *named == Kind::sequence ? n.sequence_out
                              : *named == Kind::tokens   ? n.token_out
                              : *named == Kind::question ? n.question_out
                                                         : n.replaced_out;
    const bool body_only = *named != Kind::none && has(n.words) && !has(head);
    return body_only ? Kind::none : *named;
  }
  if (has(n.replaced_out)) {
    return Kind::replaced;
  }
  if (n.question_out != n.token_out && has(n.question_out)) {
    return Kind::question;
  }
  if (!n.sequence_dense.empty() && has(n.sequence_out)) {
    return Kind::sequence;
  }
  if (has(n.token_out)) {
    return has(n.base + "." + n.pooler) ? Kind::sequence : Kind::tokens;
  }
  return root.is_fresh() || has(n.lm_dense) ? Kind::masked : Kind::none;
}

Tensor question_rows(const TokenRows& tokens, const ModelInput& input, int64_t separator) {
  Tensor question = Tensor::zeros({tokens.batch, tokens.length}, DType::i64);
  const Tensor ids = input.input_ids.to(DType::i64).contiguous();
  for (int64_t b = 0; b < tokens.batch; ++b) {
    const int64_t* id = ids.data<int64_t>() + b * tokens.length;
    const int64_t* end = std::find(id, id + tokens.length, separator);
    const int64_t last = end == id + tokens.length ? 0 : end - id;
    std::fill_n(question.data<int64_t>() + b * tokens.length, last + 1, 1);
  }
  return tokens.pick(question);
}

EncoderHead::EncoderHead(Kind kind, const Json& config, const Scope& root, const Scope& base,
                         const EncoderConfig& encoder, const Embedding& words)
    : kind_(kind), c_(encoder) {
  const EncoderNames& n = c_.names;
  if (!n.pooler.empty()) {
    const bool pooled = (kind == Kind::sequence && n.sequence_dense.empty()) ||
                        ((kind == Kind::none || c_.keeps_pooler) &&
                         (root.is_fresh() || base.has(n.pooler + ".weight")));
    if (pooled) {
      pooler_ = Linear(base / n.pooler, c_.hidden_size, c_.hidden_size, {.init = c_.init});
    } else {
      root.ignore({"*" + n.pooler + ".weight", "*" + n.pooler + ".bias"});
    }
  }
  switch (kind) {
    case Kind::none:
      break;
    case Kind::masked:
      make_lm_head(config, root, words);
      break;
    case Kind::replaced:
      dense_ = Linear(root / n.replaced_dense, c_.hidden_size, c_.hidden_size, {.init = c_.init});
      out_ = Linear(root / n.replaced_out, c_.hidden_size, 1, {.init = c_.init});
      break;
    default:
      make_classifier(config, root);
  }
}

void EncoderHead::make_lm_head(const Json& config, const Scope& root, const Embedding& words) {
  const EncoderNames& n = c_.names;
  const int64_t size = words.weight().size(1);
  dense_ = Linear(root / n.lm_dense, c_.hidden_size, size,
                  {.bias = c_.classifier_bias, .init = c_.init});
  norm_ = Norm(root / n.lm_norm, size, c_.norm);
  const Scope decoder = root / n.lm_decoder;
  Tensor bias;
  if (c_.lm_head_bias) {
    // A tied decoder has one bias by two names. One with weights of its own has decoder.bias (where
    // it is there), and the other goes unused, as in Hugging Face's code.
    const bool own = n.lm_bias.empty() || (!c_.tied && decoder.has("bias"));
    if (!n.lm_bias.empty()) {
      own ? root.alias(n.lm_bias) : decoder.alias("bias");
    }
    bias = own ? decoder.parameter("bias", {c_.vocab_size}, Init::zeros())
               : root.parameter(n.lm_bias, {c_.vocab_size}, Init::zeros());
  }
  out_ = lm_head(config, decoder, words, bias, c_.init);
}

void EncoderHead::make_classifier(const Json& config, const Scope& root) {
  const EncoderNames& n = c_.names;
  if (!n.sequence_dense.empty() && (kind_ == Kind::sequence || c_.tokens_through_dense)) {
    dense_ = Linear(root / n.sequence_dense, c_.hidden_size, c_.hidden_size,
                    {.bias = c_.classifier_bias, .init = c_.init});
    if (!n.sequence_norm.empty()) {
      norm_ = Norm(root / n.sequence_norm, c_.hidden_size, c_.norm);
    }
  }
  const int64_t labels = label_count(config);
  check_size(config, root, static_cast<double>(c_.hidden_size) * static_cast<double>(labels));
  const std::string& name = kind_ == Kind::sequence ? n.sequence_out
                            : kind_ == Kind::tokens ? n.token_out
                                                    : n.question_out;
  if (kind_ == Kind::question) {
    check_data(labels == 2, config.file(),
               "num_labels is {}; question answering has 2: where an answer begins and ends",
               labels);
  } else {
    problem_ = problem_type_of(config);
  }
  if (kind_ == Kind::question && !n.question_mlp.empty()) {
    const Scope mlp = root / n.question_mlp;
    const int64_t inner = c_.intermediate_size;
    dense_ = Linear(mlp / "intermediate.dense", c_.hidden_size, inner, {.init = c_.init});
    down_ = Linear(mlp / "output.dense", inner, c_.hidden_size, {.init = c_.init});
    norm_ = Norm(mlp / "output.LayerNorm", c_.hidden_size, c_.norm);
  }
  out_ = Linear(root / name, c_.hidden_size, labels, {.init = c_.init});
}

Tensor EncoderHead::question_mlp(const Tensor& rows, const Pass& pass) const {
  const Tensor inner = dense_(pass.dropout(rows, c_.dropout), c_.activation);
  return norm_(add(pass.dropout(down_(inner), c_.dropout), rows));
}

/// The layer in front of the classifier, where there is one.
Tensor EncoderHead::dense(const Tensor& rows, const Pass& pass) const {
  if (!dense_.defined()) {
    return rows;
  }
  const Tensor read = dense_(pass.dropout(rows, c_.sequence_input_dropout), c_.sequence_activation);
  return norm_.defined() ? norm_(read) : read;
}

ModelOutput EncoderHead::classified(const Tensor& rows, const TokenRows& tokens,
                                    const ModelInput& input) const {
  const Pass pass = tokens.pass(input);
  const Tensor pooled =
      c_.mean_pooling ? mean_rows(rows, tokens.layout) : first_rows(rows, tokens.layout);
  const Tensor read =
      c_.names.sequence_dense.empty() ? pooler_(pooled, c_.pooler_activation) : dense(pooled, pass);
  return sequence_results(pass.dropout(read, c_.classifier_dropout), out_, input, problem_);
}

ModelOutput EncoderHead::answered(const Tensor& rows, const TokenRows& tokens,
                                  const ModelInput& input) const {
  const Pass pass = tokens.pass(input);
  const Tensor read = down_.defined()           ? question_mlp(rows, pass)
                      : c_.tokens_through_dense ? dense(rows, pass)
                                                : rows;
  Tensor logits = out_(pass.dropout(read, c_.question_dropout));
  if (c_.hides_question) {
    Tensor hidden = cast(question_rows(tokens, input, *c_.separator), logits.dtype());
    for (int64_t b = 0; b < tokens.batch; ++b) {  // the first token stands for "no answer"
      hidden.data<float>()[tokens.layout.start(b)] = 0.0f;
    }
    logits = add(logits, mul(reshape(hidden, {hidden.numel(), 1}), -1e6));
  }
  return answer_results(logits, tokens, input);
}

/// ELECTRA's discriminator: whether each token was replaced.
ModelOutput EncoderHead::replaced(const Tensor& rows, const TokenRows& tokens,
                                  const ModelInput& input) const {
  const Tensor logits = out_(dense_(rows, c_.activation));  // [N, 1]
  ModelOutput output;
  output.logits = reshape(tokens.to_batch(logits), {tokens.batch, tokens.length});
  if (input.labels.defined()) {
    const Tensor labels = tokens.pick(input.labels);
    const Tensor& real = tokens.layout.key_padding;
    std::vector<int64_t> counted;
    for (int64_t i = 0; i < labels.numel(); ++i) {
      if (!real.defined() || real.data<uint8_t>()[i] != 0) {
        counted.push_back(i);
      }
    }
    const auto count = static_cast<int64_t>(counted.size());
    const Tensor index = Tensor::from(counted, {count});
    const Tensor wanted = index_rows(reshape(cast(labels, DType::f32), {labels.numel(), 1}), index);
    output.loss = binary_cross_entropy(index_rows(logits, index), wanted);
  }
  return output;
}

ModelOutput EncoderHead::operator()(const Tensor& rows, const TokenRows& tokens,
                                    const ModelInput& input) const {
  switch (kind_) {
    case Kind::masked:
      return token_results(norm_(dense_(rows, c_.lm_activation)), tokens, out_, input,
                           same_position_targets);
    case Kind::sequence:
      return classified(rows, tokens, input);
    case Kind::tokens: {
      const Pass pass = tokens.pass(input);
      const Tensor read = c_.tokens_through_dense ? dense(rows, pass) : rows;
      const double dropout = c_.token_dropout.value_or(c_.classifier_dropout);
      return token_results(pass.dropout(read, dropout), tokens, out_, input, same_position_targets);
    }
    case Kind::question:
      return answered(rows, tokens, input);
    case Kind::replaced:
      return replaced(rows, tokens, input);
    case Kind::none:
      break;
  }
  ModelOutput output;
  output.last_hidden_state = tokens.to_batch(rows);
  if (pooler_.defined()) {
    output.pooler_output = pooler_(first_rows(rows, tokens.layout), c_.pooler_activation);
  }
  return output;
}

}  // namespace heed
