#include "models/task_heads.h"

#include "base/check.h"

namespace heed {
namespace {

Tensor sequence_loss(const Tensor& logits, const ModelInput& input, ProblemType problem) {
  const Tensor& labels = input.labels;
  if (problem == ProblemType::unspecified) {
    problem = logits.size(1) == 1           ? ProblemType::regression
              : is_floating(labels.dtype()) ? ProblemType::multi_label
                                            : ProblemType::single_label;
  }
  if (problem == ProblemType::single_label) {
    const int64_t batch = logits.size(0);
    check(labels.numel() == batch, "loss", "labels {} do not fit a batch of {}", labels.shape(),
          batch);
    check(labels.dtype() == DType::i64 || labels.dtype() == DType::i32, "loss",
          "labels of {} classes must be whole numbers, not {}", logits.size(1),
          name_of(labels.dtype()));
    CrossEntropyOptions options;
    options.label_smoothing = input.label_smoothing;
    return cross_entropy(logits, reshape(labels.to(DType::i64), {batch}), options);
  }
  check(labels.numel() == logits.numel(), "loss", "labels {} do not fit outputs {}", labels.shape(),
        logits.shape());
  const Tensor wanted = reshape(labels.to(logits.dtype()), logits.shape());
  if (problem == ProblemType::regression) {
    return mse(logits, wanted);
  }
  return binary_cross_entropy(logits, wanted);
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels) {
  // A class is right or not: a softmax over its output and 0.
  const Tensor scores =
      log_softmax(stack({logits, Tensor::zeros(logits.shape(), logits.dtype())}, -1), -1);
  const Tensor weights = stack({labels, add(mul(labels, -1.0), 1.0)}, -1);
  return mul(mean(sum(mul(weights, scores), -1)), -1.0);
}

void refuse_architecture(const Json& config, const std::string& name,
                         const std::vector<std::string>& known) {
  fail(ErrorKind::data, config.file(), "architecture '{}' is not supported; use {}", name,
       fmt::join(known, ", "));
}

int64_t label_count(const Json& config, int64_t otherwise) {
  if (config.has("num_labels")) {
    return size_of(config, "num_labels");
  }
  const auto names = config.find("id2label");
  if (!names) {
    return otherwise;
  }
  check_data(names->is_object() && names->size() > 0, config.file(),
             "id2label must name at least one class");
  return static_cast<int64_t>(names->size());
}

Linear make_classifier(const Json& config, const Scope& root, int64_t width, int64_t labels,
                       const Init& init) {
  check_size(config, root, static_cast<double>(width) * static_cast<double>(labels));
  return Linear(root / "classifier", width, labels, {.init = init});
}

ProblemType problem_type_of(const Json& config) {
  const std::string name = config.string_or("problem_type", "");
  if (name.empty()) {
    return ProblemType::unspecified;
  }
  if (name == "regression") {
    return ProblemType::regression;
  }
  if (name == "single_label_classification") {
    return ProblemType::single_label;
  }
  check_data(name == "multi_label_classification", config.file(),
             "problem_type '{}' is not supported; use regression, single_label_classification or "
             "multi_label_classification",
             name);
  return ProblemType::multi_label;
}

ModelOutput sequence_results(const Tensor& pooled, const Linear& classifier,
                             const ModelInput& input, ProblemType problem) {
  ModelOutput output;
  output.logits = observe("hook_logits", classifier(pooled));
  if (input.labels.defined()) {
    output.loss = sequence_loss(output.logits, input, problem);
  }
  return output;
}

ModelOutput answer_results(const Tensor& logits, const TokenRows& tokens, const ModelInput& input) {
  const Tensor both = tokens.to_batch(logits);
  ModelOutput output;
  output.start_logits = contiguous(select(both, 2, 0));
  output.end_logits = contiguous(select(both, 2, 1));
  const auto loss = [&](const Tensor& scores, const Tensor& positions, const char* name) {
    check(positions.numel() == tokens.batch, "loss", "{} {} do not fit a batch of {}", name,
          positions.shape(), tokens.batch);
    // An answer that the text was cut before is left out.
    std::vector<int64_t> wanted = positions.to(DType::i64).to_vector<int64_t>();
    for (int64_t& position : wanted) {
      position = position >= tokens.length ? -100 : std::max<int64_t>(position, 0);
    }
    return cross_entropy(scores, Tensor::from(wanted, {tokens.batch}), {});
  };
  if (input.start_positions.defined() && input.end_positions.defined()) {
    output.loss = mul(add(loss(output.start_logits, input.start_positions, "start_positions"),
                          loss(output.end_logits, input.end_positions, "end_positions")),
                      0.5);
  }
  return output;
}

Linear lm_head(const Json& config, const Scope& scope, const Embedding& words, const Tensor& bias,
               const Init& init) {
  if (config.boolean_or("tie_word_embeddings", true)) {
    scope.alias("weight");
    return Linear(words.weight(), bias);
  }
  return Linear(scope.weight("weight", words.weight().shape(), init), bias);
}

Tensor first_rows(const Tensor& rows, const Layout& layout) {
  std::vector<int64_t> starts(static_cast<size_t>(layout.batch));
  for (int64_t b = 0; b < layout.batch; ++b) {
    check(layout.length_of(b) > 0, "forward", "sequence {} of the batch has no real token", b);
    starts[static_cast<size_t>(b)] = layout.start(b);
  }
  return index_rows(rows, Tensor::from(starts, {layout.batch}));
}

Tensor last_rows(const Tensor& rows, const TokenRows& tokens, const ModelInput& input,
                 std::optional<int64_t> padding) {
  const bool ends_known =
      tokens.layout.is_ragged() || tokens.batch == 1 || !input.attention_mask.defined();
  check(padding.has_value() || ends_known, "forward",
        "pad_token_id is missing from config.json; it tells where a sequence of a batch ends");
  std::vector<int64_t> ends;
  const int64_t* ids = tokens.ids.data<int64_t>();
  for (int64_t b = 0; b < tokens.batch; ++b) {
    int64_t last = tokens.layout.length_of(b) - 1;
    const int64_t start = tokens.layout.start(b);
    while (last > 0 && padding && ids[start + last] == *padding) {
      --last;
    }
    ends.push_back(start + std::max<int64_t>(last, 0));
  }
  return index_rows(rows, Tensor::from(ends, {tokens.batch}));
}

Tensor mean_rows(const Tensor& rows, const Layout& layout) {
  std::vector<Tensor> means;
  for (int64_t b = 0; b < layout.batch; ++b) {
    // One sequence at a time, real rows only: the sum is the same however the batch is padded.
    std::vector<int64_t> real;
    for (int64_t t = 0; t < layout.length_of(b); ++t) {
      const bool padded = layout.key_padding.defined() &&
                          layout.key_padding.data<uint8_t>()[b * layout.length + t] == 0;
      if (!padded) {
        real.push_back(layout.start(b) + t);
      }
    }
    const auto count = static_cast<int64_t>(real.size());
    check(count > 0, "forward", "sequence {} of the batch has no real token", b);
    means.push_back(mean(index_rows(rows, Tensor::from(real, {count})), 0, true));
  }
  return concat(means, 0);
}

void check_inputs(const ModelInput& input, const InputUse& use, const std::string& model) {
  auto refuse = [&](const Tensor& tensor, bool used, const char* name) {
    check(used || !tensor.defined(), "forward", "{} takes no {}", model, name);
  };
  refuse(input.token_type_ids, use.token_types, "token_type_ids");
  refuse(input.decoder_input_ids, use.decoder, "decoder_input_ids");
  refuse(input.decoder_attention_mask, use.decoder, "decoder_attention_mask");
  refuse(input.pixel_values, use.pixels, "pixel_values");
  refuse(input.features, use.features, "features");
  refuse(input.global_attention_mask, use.global_mask, "global_attention_mask");
  refuse(input.start_positions, use.answers, "start_positions");
  refuse(input.end_positions, use.answers, "end_positions");
  refuse(input.context_input_ids, false, "context_input_ids");
  refuse(input.doc_scores, false, "doc_scores");
  refuse(input.decoder_features, use.features && use.decoder, "decoder_features");
}

TokenRows read_tokens(const ModelInput& input, const InputUse& use, const std::string& model,
                      int64_t vocabulary, int64_t context, bool skip_padding) {
  check_inputs(input, use, model);
  TokenRows tokens = token_rows(input.input_ids, input.attention_mask, vocabulary, skip_padding);
  check_length(tokens.length, context);
  return tokens;
}

}  // namespace heed
