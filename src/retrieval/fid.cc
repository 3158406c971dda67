#include <algorithm>

#include "base/check.h"
#include "heed/data.h"
#include "heed/inspect.h"
#include "heed/retrieval.h"
#include "heed/tensor.h"
#include "retrieval/padded_texts.h"
#include "retrieval/write_answer.h"

namespace heed {
namespace {

/// Tokens of each passage.
std::vector<int64_t> passage_lengths(const ModelInput& input) {
  const int64_t length = input.input_ids.size(1);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < input.input_ids.size(0); ++i) {
    const int64_t* mask = input.attention_mask.data<int64_t>() + i * length;
    lengths.push_back(std::count(mask, mask + length, 1));
  }
  return lengths;
}

}  // namespace

ModelInput fid_input(const Tokenizer& tokenizer, std::string_view question,
                     const std::vector<FidPassage>& passages, int64_t passage_tokens) {
  check(!passages.empty(), "fid_input", "there is no passage to read");
  std::vector<std::string> texts;
  texts.reserve(passages.size());
  for (const FidPassage& passage : passages) {
    texts.push_back(fid_text(question, passage.title, passage.text));
  }
  const PaddedTexts batch = encode_texts(tokenizer, texts, passage_tokens);
  ModelInput input;
  input.input_ids = batch.input_ids;
  input.attention_mask = batch.attention_mask;
  input.passages = static_cast<int64_t>(texts.size());
  input.skip_padding = true;
  return input;
}

std::vector<double> fid_passage_scores(const Model& model, const ModelInput& input) {
  check(input.passages == input.input_ids.size(0), "fid_passage_scores",
        "one question at a time: {} rows, {} passages", input.input_ids.size(0), input.passages);
  const NoGrad no_grad;
  RecorderOptions wanted;
  wanted.kind = "cross";
  Recorder recorder(wanted);
  ModelInput first = input;
  first.skip_padding = true;
  first.want_logits = false;
  first.labels = {};
  first.decoder_input_ids =
      Tensor::from(std::vector<int64_t>{generation_tokens(model).decoder_start}, {1, 1});
  model.forward(first);
  const std::vector<int64_t> lengths = passage_lengths(input);
  std::vector<double> scores(lengths.size(), 0.0);
  double heads = 0.0;
  for (const RecordedAttention& attention : recorder.attentions()) {
    heads += static_cast<double>(attention.heads());
    for (int64_t head = 0; head < attention.heads(); ++head) {
      const Tensor weights = attention.record.weights(0, head, 0, 1, 0, attention.keys());
      const float* weight = weights.data<float>();
      for (size_t i = 0; i < lengths.size(); ++i) {
        for (int64_t t = 0; t < lengths[i]; ++t) {
          scores[i] += *weight++ / static_cast<double>(lengths[i]);
        }
      }
    }
  }
  for (double& score : scores) {
    score /= std::max(heads, 1.0);
  }
  return scores;
}

Answer ask_fid(SearchIndex& index, const Model& reader, const Tokenizer& tokenizer,
               std::string_view question, const AskOptions& options, int64_t passage_tokens) {
  if (reader.kind() != ModelKind::encoder_decoder) {
    fail(ErrorKind::usage, "ask", "a FiD reader is an encoder-decoder such as t5; this is a {}",
         reader.model_type());
  }
  options.sampling.check();
  Answer answer;
  std::vector<FidPassage> passages;
  for (SearchResult& result : index.search(question, options.search)) {
    passages.push_back({result.title, result.text});
    AnswerSource source;
    source.number = result.rank;
    source.result = std::move(result);
    answer.sources.push_back(std::move(source));
  }
  if (passages.empty()) {
    passages.emplace_back();  // nothing was found: the question alone
  }
  Request request;
  request.encoder = fid_input(tokenizer, question, passages, passage_tokens);
  const ModelInput input = request.encoder;
  const std::vector<int64_t> lengths = passage_lengths(input);
  for (size_t i = 0; i < answer.sources.size(); ++i) {
    answer.sources[i].tokens = {0, lengths[i]};
  }
  for (const int64_t length : lengths) {
    answer.prompt_tokens += length;
  }
  write_answer(reader, tokenizer, std::move(request), options, answer);
  if (options.attention && !answer.sources.empty()) {
    const std::vector<double> scores = fid_passage_scores(reader, input);
    for (size_t i = 0; i < answer.sources.size(); ++i) {
      answer.sources[i].attention = scores[i];
    }
  }
  return answer;
}

}  // namespace heed
