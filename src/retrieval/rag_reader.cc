#include <algorithm>

#include "base/check.h"
#include "heed/io.h"
#include "heed/ops.h"
#include "heed/retrieval.h"
#include "heed/tensor.h"
#include "retrieval/padded_texts.h"

namespace heed {
namespace {

/// What the configuration says about documents and questions.
struct RagText {
  std::string prefix, title_separator, document_separator;
  int64_t max_tokens = 0;

  explicit RagText(const Json& config)
      : prefix(config.at("generator").string_or("prefix", "")),
        title_separator(config.string_or("title_sep", " / ")),
        document_separator(config.string_or("doc_sep", " // ")),
        max_tokens(config.integer_or("max_combined_length", 300, 1, 1 << 24)) {}

  /// A document in front of the question, as transformers' RagRetriever joins them.
  std::string join(const SearchResult& document, std::string_view question) const {
    std::string title = document.title;
    if (title.starts_with('"')) {
      title.erase(0, 1);
    }
    if (title.ends_with('"')) {
      title.pop_back();
    }
    std::string text = prefix + title + title_separator + document.text + document_separator;
    text += question;
    std::string joined;  // pairs of spaces become one, from the left
    for (size_t i = 0; i < text.size(); ++i) {
      joined += text[i];
      i += text[i] == ' ' && i + 1 < text.size() && text[i + 1] == ' ' ? 1 : 0;
    }
    return joined;
  }
};

std::vector<float> question_vector(const Model& model, const Tokenizer& tokenizer,
                                   std::string_view question) {
  const std::string text(question);
  const PaddedTexts batch = encode_texts(tokenizer, std::span(&text, 1), model.context_length());
  ModelInput input;
  input.input_ids = batch.input_ids;
  input.attention_mask = batch.attention_mask;
  return model.forward(input).pooler_output.to_vector<float>();
}

}  // namespace

Answer ask_rag(SearchIndex& index, const Model& model, const Tokenizer& question_tokenizer,
               const Tokenizer& generator_tokenizer, std::string_view question,
               const AskOptions& options, int64_t num_beams) {
  const NoGrad no_grad;
  const Json& config = model.config();
  if (!config.has("question_encoder") || !config.has("generator")) {
    fail(ErrorKind::usage, "ask", "a model of type rag is expected; this is a {}",
         model.model_type());
  }
  const std::vector<float> vector = question_vector(model, question_tokenizer, question);
  const std::vector<SearchResult> found = index.search_vector(vector, options.search.top_k);
  check(!found.empty(), "ask", "the index is empty: a RAG cannot answer without documents");
  const RagText join(config);
  std::vector<std::string> texts;
  Tensor scores = Tensor::empty({1, static_cast<int64_t>(found.size())}, DType::f32);
  for (size_t i = 0; i < found.size(); ++i) {
    texts.push_back(join.join(found[i], question));
    scores.data<float>()[i] = static_cast<float>(found[i].score);
  }
  const int64_t context = model.context_length();
  const PaddedTexts batch =
      encode_texts(generator_tokenizer, texts,
                   context > 0 ? std::min(context, join.max_tokens) : join.max_tokens);
  Request request;
  request.encoder.context_input_ids = batch.input_ids;
  request.encoder.context_attention_mask = batch.attention_mask;
  request.encoder.doc_scores = scores;
  request.max_tokens = options.max_tokens;
  apply_generation_tokens(model, request);
  const std::vector<Hypothesis> answers = generate_rag(
      model, request, {.beams = num_beams, .n_best = 1, .max_tokens = options.max_tokens});
  Answer answer;
  const Tensor weights = softmax(scores, 1);
  for (size_t i = 0; i < found.size(); ++i) {
    AnswerSource source;
    source.number = static_cast<int64_t>(i) + 1;
    source.result = found[i];
    source.tokens = {0, batch.lengths[i]};
    source.attention = weights.data<float>()[i];
    answer.prompt_tokens += batch.lengths[i];
    answer.sources.push_back(std::move(source));
  }
  if (!answers.empty()) {
    const std::vector<int64_t>& ids = answers.front().ids;
    answer.answer_tokens = static_cast<int64_t>(ids.size());
    answer.text = generator_tokenizer.decode(ids, true);
    const bool ended = !ids.empty() && std::find(request.end.begin(), request.end.end(),
                                                 ids.back()) != request.end.end();
    answer.finish = ended ? FinishReason::end_token : FinishReason::length;
  }
  if (options.on_text && !answer.text.empty()) {
    options.on_text(answer.text);
  }
  return answer;
}

}  // namespace heed
