#include "models/rag.h"

#include <algorithm>

#include "base/check.h"
#include "generate/prefill.h"
#include "heed/ops.h"

namespace heed {
namespace {

/// One document of a question, as a question with one document.
Request only_document(const Request& request, int64_t document) {
  Request one = request;
  const ModelInput& all = request.encoder;
  one.encoder.context_input_ids =
      slice(all.context_input_ids, 0, document, document + 1).contiguous();
  if (all.context_attention_mask.defined()) {
    one.encoder.context_attention_mask =
        slice(all.context_attention_mask, 0, document, document + 1).contiguous();
  }
  one.encoder.doc_scores = Tensor::zeros({1, 1}, DType::f32);
  return one;
}

Tensor repeat(const Tensor& x, int64_t times) {
  return x.defined() ? concat(std::vector<Tensor>(static_cast<size_t>(times), x), 0) : x;
}

/// Log-likelihoods of the answers, marginalised over all documents.
std::vector<double> score_answers(const Rag& model, const Request& request,
                                  const std::vector<Hypothesis>& answers) {
  const int64_t start = start_tokens(model, request).front();
  size_t longest = 0;
  for (const Hypothesis& answer : answers) {
    longest = std::max(longest, answer.ids.size() + 1);
  }
  const auto count = static_cast<int64_t>(answers.size());
  const auto length = static_cast<int64_t>(longest);
  ModelInput input = request.encoder;
  input.labels = Tensor::full({count, length}, static_cast<double>(model.padding()), DType::i64);
  for (int64_t i = 0; i < count; ++i) {
    int64_t* row = input.labels.data<int64_t>() + i * length;
    const std::vector<int64_t>& ids = answers[static_cast<size_t>(i)].ids;
    row[0] = start;
    std::copy(ids.begin(), ids.end(), row + 1);
  }
  input.input_ids = input.attention_mask = {};
  input.context_input_ids = repeat(input.context_input_ids, count);
  input.context_attention_mask = repeat(input.context_attention_mask, count);
  input.doc_scores = repeat(input.doc_scores, count);
  input.skip_padding = true;
  std::vector<double> scores = model.negative_log_likelihood(input, true).to_doubles();
  for (double& score : scores) {
    score = -score;
  }
  return scores;
}

/// Beams for every document by itself; the answers are then ordered by their likelihood over all
/// documents.
std::vector<Hypothesis> search_sequences(const Rag& model, const Request& request,
                                         const BeamOptions& options) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < request.encoder.doc_scores.size(1); ++i) {
    requests.push_back(only_document(request, i));
  }
  BeamOptions all = options;
  all.n_best = options.beams;
  std::vector<Hypothesis> answers;
  for (std::vector<Hypothesis>& found : beam_search(model, requests, all)) {
    for (Hypothesis& answer : found) {
      const bool known = model.deduplicates() &&
                         std::any_of(answers.begin(), answers.end(), [&](const Hypothesis& other) {
                           return other.ids == answer.ids;
                         });
      if (!known) {
        answers.push_back(std::move(answer));
      }
    }
  }
  const std::vector<double> scores = score_answers(model, request, answers);
  for (size_t i = 0; i < answers.size(); ++i) {
    answers[i].score = scores[i];
  }
  std::stable_sort(answers.begin(), answers.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  answers.resize(std::min(answers.size(), static_cast<size_t>(options.n_best)));
  return answers;
}

}  // namespace

std::vector<Hypothesis> generate_rag(const Model& model, const Request& request,
                                     const BeamOptions& options) {
  const auto* rag = dynamic_cast<const Rag*>(&model);
  if (rag == nullptr) {
    fail(ErrorKind::usage, "generate_rag", "a model of type rag is expected; this is a {}",
         model.model_type());
  }
  check(request.encoder.context_input_ids.defined() && request.encoder.doc_scores.defined(),
        "generate_rag", "context_input_ids and doc_scores of the question are missing");
  const NoGrad no_grad;
  BeamOptions search = options;
  if (search.beams == 1) {
    search.early_stopping = EarlyStopping::yes;  // greedy: the first end token ends the answer
  }
  return rag->marginalizes_sequences() ? search_sequences(*rag, request, search)
                                       : beam_search(model, request, search);
}

}  // namespace heed
