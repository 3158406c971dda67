#include "models/rag.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "heed/ops.h"
#include "models/encoder_decoder.h"
#include "models/registry.h"

namespace heed {
namespace {

/// The names in front of a part's parameters: a RagModel by itself has no "rag.".
Scope body_of(const Scope& root) {
  return root.is_fresh() || !root.has(
                                "question_encoder.question_encoder.bert_model.embeddings."
                                "word_embeddings.weight")
             ? root / "rag"
             : root;
}

/// A part's configuration; its class is `otherwise` where it names none.
Json part(const Json& config, std::string_view name, const std::string& otherwise) {
  const Json own = config.at(name);
  return architecture(own).empty() && !otherwise.empty()
             ? JsonBuilder(own)
                   .set("architectures", std::vector<std::string>{otherwise})
                   .build(config.file())
             : own;
}

/// log(sum(exp(x))) along an axis.
Tensor log_sum_exp(const Tensor& x, int axis) {
  const Tensor largest = max(x, axis, true).detach();
  const Tensor kept = add(log(sum(exp(sub(x, largest)), axis, true)), largest);
  return contiguous(select(kept, axis, 0));
}

/// Every row of [B, …] n times in a row.
Tensor repeat_rows(const Tensor& x, int64_t times) {
  if (!x.defined()) {
    return x;
  }
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < x.size(0) * times; ++i) {
    rows.push_back(i / times);
  }
  const auto count = static_cast<int64_t>(rows.size());
  return index_rows(x.contiguous(), Tensor::from(rows, {count}));
}

/// The labels one to the left, with padding at the end, i64 [B, T].
Tensor shifted_left(const Tensor& labels_in, int64_t padding) {
  const Tensor labels = labels_in.to(DType::i64).contiguous();
  Tensor shifted = Tensor::empty(labels.shape(), DType::i64);
  const int64_t length = labels.size(1);
  for (int64_t i = 0; i < labels.numel(); ++i) {
    shifted.data<int64_t>()[i] = i % length + 1 < length ? labels.data<int64_t>()[i + 1] : padding;
  }
  return shifted;
}

/// 1 where a target counts, f32 [B, T]; positions before `first` do not.
Tensor counted(const Tensor& targets, int64_t padding, int64_t first) {
  Tensor mask = Tensor::zeros(targets.shape(), DType::f32);
  for (int64_t i = 0; i < targets.numel(); ++i) {
    const bool real = targets.data<int64_t>()[i] != padding && i % targets.size(1) >= first;
    mask.data<float>()[i] = real ? 1.0F : 0.0F;
  }
  return mask;
}

/// The caches of a sequence's documents, which lie one after another in its own.
std::vector<SequenceCache> split_documents(const SequenceCache& cache, int64_t docs) {
  const auto part = [docs](const std::vector<KvCache>& all, int64_t doc) {
    const auto layers = static_cast<int64_t>(all.size()) / docs;
    return std::vector<KvCache>(all.begin() + doc * layers, all.begin() + (doc + 1) * layers);
  };
  std::vector<SequenceCache> documents(static_cast<size_t>(docs));
  for (int64_t i = 0; i < docs; ++i) {
    SequenceCache& each = documents[static_cast<size_t>(i)];
    each.self = part(cache.self, i);
    each.cross = part(cache.cross, i);
    each.length = cache.length;
  }
  return documents;
}

void join_documents(std::vector<SequenceCache> documents, SequenceCache& cache) {
  cache.self.clear();
  cache.cross.clear();
  for (SequenceCache& each : documents) {
    std::move(each.self.begin(), each.self.end(), std::back_inserter(cache.self));
    std::move(each.cross.begin(), each.cross.end(), std::back_inserter(cache.cross));
    cache.length = each.length;
  }
}

int64_t documents_of(const SequenceCache& cache) { return cache.state.at(0).size(1); }

/// Runs every sequence's tokens with each of its documents. A row of the result is the logs of the
/// documents' probabilities (-inf where another sequence has more documents) and their rows.
Tensor decode_documents(const Model& generator, const Tensor& ids, const Pass& pass) {
  std::vector<std::vector<SequenceCache>> documents;
  std::vector<int64_t> lengths, tokens;
  int64_t most = 0;
  for (size_t s = 0; s < pass.caches.size(); ++s) {
    const int64_t docs = documents_of(*pass.caches[s]),
                  start = pass.layout.start(static_cast<int64_t>(s));
    const int64_t length = pass.layout.length_of(static_cast<int64_t>(s));
    documents.push_back(split_documents(*pass.caches[s], docs));
    most = std::max(most, docs);
    for (int64_t i = 0; i < docs; ++i) {
      lengths.push_back(length);
      tokens.insert(tokens.end(), ids.data<int64_t>() + start,
                    ids.data<int64_t>() + start + length);
    }
  }
  Pass inner;
  inner.layout = Layout::ragged(lengths);
  for (std::vector<SequenceCache>& of_sequence : documents) {
    for (SequenceCache& each : of_sequence) {
      inner.caches.push_back(&each);
    }
  }
  Tensor encoded;
  if (pass.encoder_hidden_states != nullptr) {
    encoded = slice(*pass.encoder_hidden_states, 0, 0, pass.encoder_layout->rows());
    inner.encoder_hidden_states = &encoded;
    inner.encoder_layout = pass.encoder_layout;
  }
  const auto count = static_cast<int64_t>(tokens.size());
  const Tensor rows = generator.decode(Tensor::from(tokens, {count}), inner).contiguous();
  const int64_t hidden = rows.size(1), width = most * (hidden + 1);
  Tensor result = Tensor::zeros({pass.layout.rows(), width}, DType::f32);
  const float* from = rows.data<float>();
  for (size_t s = 0; s < documents.size(); ++s) {
    const auto sequence = static_cast<int64_t>(s);
    const auto docs = static_cast<int64_t>(documents[s].size());
    const float* logs = pass.caches[s]->state[0].data<float>();
    float* out = result.data<float>() + pass.layout.start(sequence) * width;
    for (int64_t t = 0; t < pass.layout.length_of(sequence); ++t) {
      std::fill_n(std::copy_n(logs, docs, out + t * width), most - docs, -INFINITY);
    }
    for (int64_t i = 0; i < docs; ++i) {
      for (int64_t t = 0; t < pass.layout.length_of(sequence); ++t, from += hidden) {
        std::copy_n(from, hidden, out + t * width + most + i * hidden);
      }
    }
    join_documents(std::move(documents[s]), *pass.caches[s]);
  }
  return result;
}

}  // namespace

Rag::Rag(const Json& config, const Scope& root) {
  const std::string name = architecture(config);
  check_data(
      name == "RagTokenForGeneration" || name == "RagSequenceForGeneration", config.file(),
      "architectures is '{}'; RagTokenForGeneration or RagSequenceForGeneration is expected, "
      "which says how answers are marginalised",
      name);
  sequences_ = name == "RagSequenceForGeneration";
  const Scope body = body_of(root);
  question_encoder_ =
      make_model(part(config, "question_encoder", "DPRQuestionEncoder"), body / "question_encoder");
  generator_ = make_model(part(config, "generator", ""), body / "generator");
  check_data(question_encoder_->kind() == ModelKind::encoder, config.file(),
             "question_encoder.model_type '{}' is no text encoder; use dpr",
             config.at("question_encoder").string_or("model_type", ""));
  check_data(generator_->kind() == ModelKind::encoder_decoder, config.file(),
             "generator.model_type '{}' is no encoder-decoder; use bart or t5",
             config.at("generator").string_or("model_type", ""));
  deduplicates_ = config.boolean_or("do_deduplication", true);
  marginalizes_ = !sequences_ && config.boolean_or("do_marginalize", false);
  reduces_loss_ = config.boolean_or("reduce_loss", false);
  excludes_start_ = sequences_ && config.boolean_or("exclude_bos_score", false);
  label_smoothing_ = config.number_or("label_smoothing", 0.0, 0.0, 1.0);
  const Json own = config.at("generator");
  padding_ = token_or(own, "pad_token_id", 0, vocab_size());
  // transformers takes a bos_token_id of 0 for none and looks at the generator's.
  constexpr int64_t kMost = int64_t{1} << 32;
  bos_ = config.integer_or("bos_token_id", 0, 0, kMost);
  bos_ = bos_ > 0 ? bos_ : own.integer_or("bos_token_id", -1, -1, kMost);
}

void Rag::set_gradient_checkpointing(bool on) {
  question_encoder_->set_gradient_checkpointing(on);
  generator_->set_gradient_checkpointing(on);
}

ModelOutput Rag::run_generator(const ModelInput& input) const {
  const Tensor& ids = input.context_input_ids;
  const Tensor& scores = input.doc_scores;
  check(scores.defined() && scores.rank() == 2 && scores.size(1) >= 1, "forward",
        "doc_scores [batch, n_docs] are missing; a RAG weighs its documents by them");
  check(ids.rank() == 2 && ids.size(0) == scores.numel(), "forward",
        "context_input_ids {} do not fit doc_scores {}", ids.shape(), scores.shape());
  ModelInput generating = input;
  generating.input_ids = ids;
  generating.attention_mask = input.context_attention_mask;
  generating.context_input_ids = generating.context_attention_mask = generating.doc_scores = {};
  generating.labels = {};
  const Tensor target = input.decoder_input_ids.defined() ? input.decoder_input_ids : input.labels;
  check(target.defined() && target.rank() == 2 && target.size(0) == scores.size(0), "forward",
        "decoder_input_ids or labels [batch, length] for {} questions are missing", scores.size(0));
  generating.decoder_input_ids = repeat_rows(target.to(DType::i64), scores.size(1));
  generating.decoder_attention_mask = repeat_rows(input.decoder_attention_mask, scores.size(1));
  generating.want_logits = true;
  return generator_->forward(generating);
}

/// Log-probabilities [B, n_docs, T, V] and targets [B, T]: every token is marginalised.
Tensor Rag::token_loss(const Tensor& log_probabilities, const Tensor& doc_scores,
                       const Tensor& targets) const {
  const int64_t batch = doc_scores.size(0), docs = doc_scores.size(1), length = targets.size(1);
  const Tensor log_docs = reshape(log_softmax(doc_scores, 1), {batch, docs, 1, 1});
  const Tensor joint = log_sum_exp(add(log_probabilities, log_docs), 1);  // [B, T, V]
  const Tensor mask = counted(targets, padding_, 0);
  const Tensor chosen =
      reshape(gather(joint, 2, reshape(targets, {batch, length, 1})), {batch, length});
  Tensor loss = mul(sum(mul(chosen, mask), 1), -1.0);
  if (label_smoothing_ == 0.0) {
    return loss;
  }
  const Tensor smooth = mul(sum(mul(sum(joint, 2), mask), 1), -1.0);
  return add(mul(loss, 1.0 - label_smoothing_),
             mul(smooth, label_smoothing_ / static_cast<double>(vocab_size())));
}

/// The same for whole answers: a document's probability counts once, with the second token, as
/// transformers has it.
Tensor Rag::sequence_loss(const Tensor& log_probabilities, const Tensor& doc_scores,
                          const Tensor& targets, bool exclude_start) const {
  const int64_t batch = doc_scores.size(0), docs = doc_scores.size(1), length = targets.size(1);
  bool all_bos = bos_ >= 0;
  for (int64_t b = 0; b < batch; ++b) {
    all_bos = all_bos && targets.data<int64_t>()[b * length] == bos_;
  }
  Tensor second = Tensor::zeros({1, 1, length}, DType::f32);
  if (length > 1) {
    second.data<float>()[1] = 1.0F;
  }
  const Tensor log_docs = reshape(log_softmax(doc_scores, 1), {batch, docs, 1});
  const Tensor index = expand(reshape(targets, {batch, 1, length, 1}), {batch, docs, length, 1});
  const Tensor chosen =
      reshape(gather(log_probabilities, 3, index.contiguous()), {batch, docs, length});
  const auto summed = [&](const Tensor& values, double times, int64_t first) {
    const Tensor mask = reshape(counted(targets, padding_, first), {batch, 1, length});
    const Tensor with_docs = add(values, mul(mul(log_docs, second), times));
    return mul(log_sum_exp(sum(mul(with_docs, mask), 2), 1), -1.0);
  };
  Tensor loss = summed(chosen, 1.0, exclude_start && all_bos ? 1 : 0);
  if (label_smoothing_ == 0.0) {
    return loss;
  }
  const auto vocabulary = static_cast<double>(vocab_size());
  const Tensor smooth = summed(sum(log_probabilities, 3), vocabulary, 0);
  return add(mul(loss, 1.0 - label_smoothing_), mul(smooth, label_smoothing_ / vocabulary));
}

Tensor Rag::loss_of(const Tensor& logits, const ModelInput& input, bool exclude_start) const {
  const int64_t batch = input.doc_scores.size(0), docs = input.doc_scores.size(1);
  const Tensor targets = shifted_left(input.labels, padding_);
  check(targets.size(0) == batch && targets.size(1) == logits.size(1), "forward",
        "labels {} do not fit logits {} of {} documents", targets.shape(), logits.shape(), docs);
  const Tensor log_probabilities =
      reshape(log_softmax(logits, -1), {batch, docs, logits.size(1), logits.size(2)});
  return sequences_ ? sequence_loss(log_probabilities, input.doc_scores, targets, exclude_start)
                    : token_loss(log_probabilities, input.doc_scores, targets);
}

Tensor Rag::negative_log_likelihood(const ModelInput& input, bool exclude_start) const {
  return loss_of(run_generator(input).logits, input, exclude_start);
}

ModelOutput Rag::do_forward(const ModelInput& input) const {
  if (!input.context_input_ids.defined()) {
    ModelInput question;
    question.input_ids = input.input_ids;
    question.attention_mask = input.attention_mask;
    question.token_type_ids = input.token_type_ids;
    question.skip_padding = input.skip_padding;
    return question_encoder_->forward(question);
  }
  ModelOutput output = run_generator(input);
  if (input.labels.defined()) {
    output.loss = loss_of(output.logits, input, excludes_start_);
    output.loss = reduces_loss_ ? sum(output.loss) : output.loss;
  }
  if (marginalizes_) {
    const Tensor log_docs = log_softmax(input.doc_scores, 1);
    const int64_t batch = log_docs.size(0), docs = log_docs.size(1);
    const Tensor each = reshape(log_softmax(output.logits, -1),
                                {batch, docs, output.logits.size(1), output.logits.size(2)});
    output.logits = log_sum_exp(add(each, reshape(log_docs, {batch, docs, 1, 1})), 1);
  }
  return output;
}

/// Rows of the documents' tokens, and behind them a row per document whose first number is the log
/// of its probability. The layout is that of the tokens: a sequence per document.
EncoderOutput Rag::encode(const ModelInput& input) const {
  check(
      input.context_input_ids.defined() && input.doc_scores.defined(), "encode",
      "a RAG reads documents (context_input_ids, doc_scores), which `heed ask --reader rag` finds");
  check(input.doc_scores.rank() == 2 && input.doc_scores.size(0) == 1 &&
            input.context_input_ids.size(0) == input.doc_scores.size(1),
        "encode", "one question at a time: context_input_ids {}, doc_scores {}",
        input.context_input_ids.shape(), input.doc_scores.shape());
  ModelInput documents;
  documents.input_ids = input.context_input_ids;
  documents.attention_mask = input.context_attention_mask;
  EncoderOutput output = generator_->encode(documents);
  const Tensor log_docs = log_softmax(input.doc_scores, 1).contiguous();
  Tensor behind = Tensor::zeros({log_docs.size(1), output.rows.size(1)}, DType::f32);
  for (int64_t i = 0; i < log_docs.size(1); ++i) {
    behind.data<float>()[i * behind.size(1)] = log_docs.data<float>()[i];
  }
  output.rows = concat({output.rows, behind}, 0);
  return output;
}

/// A sequence's cache holds the caches of all documents one after another, and state[0] the logs of
/// their probabilities [1, n_docs]. A row of the result is these logs and the documents' rows.
Tensor Rag::decode(const Tensor& ids, Pass& pass) const {
  if (pass.encoder_hidden_states != nullptr && pass.caches.at(0)->state.empty()) {
    check(pass.caches.size() == 1, "decode", "a RAG begins one sequence at a time");
    SequenceCache& cache = *pass.caches[0];
    const int64_t docs = pass.encoder_layout->batch, first = pass.encoder_layout->rows();
    Tensor logs = Tensor::empty({1, docs}, DType::f32);
    const SequenceCache empty = cache.copy();
    for (int64_t i = 0; i < docs; ++i) {
      logs.data<float>()[i] =
          slice(pass.encoder_hidden_states->detach(), 0, first + i, first + i + 1)
              .contiguous()
              .data<float>()[0];
      if (i > 0) {
        const SequenceCache other = empty.copy();
        cache.self.insert(cache.self.end(), other.self.begin(), other.self.end());
        cache.cross.insert(cache.cross.end(), other.cross.begin(), other.cross.end());
      }
    }
    cache.state = {logs};
  }
  return decode_documents(*generator_, ids, pass);
}

/// log(sum over documents of p(document) p(token | document)).
Tensor Rag::do_logits(const Tensor& rows) const {
  const int64_t hidden = hidden_size(), docs = rows.size(1) / (hidden + 1);
  const Tensor states =
      reshape(contiguous(slice(rows, 1, docs, rows.size(1))), {rows.size(0) * docs, hidden});
  const Tensor each = log_softmax(generator_->logits(states), -1);
  const Tensor logs = reshape(contiguous(slice(rows, 1, 0, docs)), {rows.size(0), docs, 1});
  return log_sum_exp(add(reshape(each, {rows.size(0), docs, each.size(1)}), logs), 1);
}

ModelSpec rag_spec() {
  ModelSpec spec;
  spec.model_type = "rag";
  spec.kind = ModelKind::encoder_decoder;
  spec.reads_documents = true;
  spec.heads = {{"RagTokenForGeneration", "question-answering", ""},
                {"RagSequenceForGeneration", "question-answering", ""}};
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Rag>(config, scope);
  };
  return spec;
}

}  // namespace heed
