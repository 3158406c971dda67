#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "heed/inspect.h"
#include "heed/retrieval.h"
#include "heed/tensor.h"
#include "retrieval/write_answer.h"

namespace heed {
namespace {

constexpr int64_t kDefaultContext = 4096;  // tokens, for a model without a limit

bool has_hangul(std::string_view text) {
  // U+AC00 to U+D7A3 are the bytes EA B0 80 to ED 9E A3.
  for (size_t i = 0; i + 2 < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    const auto second = static_cast<unsigned char>(text[i + 1]);
    if ((first == 0xea && second >= 0xb0) || first == 0xeb || first == 0xec ||
        (first == 0xed && second <= 0x9e)) {
      return true;
    }
  }
  return false;
}

/// A source as it stands in the message.
std::string source_block(const SearchResult& source, size_t number) {
  std::string block = fmt::format("[{}]", number);
  block += source.title.empty() ? "" : " " + source.title;
  return block + "\n" + source.text;
}

/// A prompt that fits, and where its sources are.
struct Prompt {
  std::vector<int64_t> ids;
  std::vector<AnswerSource> sources;
};

/// Tokens of `encoding` that come from bytes [begin, end) of the text.
TextSpan tokens_of(const Encoding& encoding, int64_t begin, int64_t end) {
  TextSpan tokens{-1, -1};
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    const TextSpan span = encoding.offsets[i];
    if (span.end > begin && span.begin < end && span.end > span.begin) {
      tokens.begin = tokens.begin < 0 ? static_cast<int64_t>(i) : tokens.begin;
      tokens.end = static_cast<int64_t>(i) + 1;
    }
  }
  return tokens.begin < 0 ? TextSpan{0, 0} : tokens;
}

Prompt encode_prompt(const std::vector<SearchResult>& results, std::string_view question,
                     const Tokenizer& tokenizer, const AskOptions& options) {
  const std::string message = rag_message(results, question);
  const bool korean = has_hangul(question);
  const std::string text =
      options.render ? options.render(message) : message + (korean ? "\n답:" : "\nAnswer:");
  const Encoding encoding = tokenizer.encode(text, !options.render);
  Prompt prompt;
  prompt.ids.assign(encoding.ids.begin(), encoding.ids.end());
  size_t at = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string block = source_block(results[i], i + 1);
    const size_t found = text.find(block, at);
    AnswerSource source;
    source.number = static_cast<int64_t>(i) + 1;
    source.result = results[i];
    if (found != std::string::npos) {  // a template may have changed the text
      at = found + block.size();
      source.tokens = tokens_of(encoding, static_cast<int64_t>(found), static_cast<int64_t>(at));
    }
    prompt.sources.push_back(std::move(source));
  }
  return prompt;
}

/// The prompt with as many sources as fit `budget` tokens; the last one that does not is cut.
Prompt fit_prompt(std::vector<SearchResult> results, std::string_view question,
                  const Tokenizer& tokenizer, const AskOptions& options, int64_t budget) {
  for (;;) {
    Prompt prompt = encode_prompt(results, question, tokenizer, options);
    const auto tokens = static_cast<int64_t>(prompt.ids.size());
    if (tokens <= budget) {
      return prompt;
    }
    if (results.size() > 1) {
      results.pop_back();
      continue;
    }
    constexpr size_t kLeast = 16;  // bytes of a source that are still worth something
    if (results.empty() || results[0].text.size() < kLeast) {
      fail(ErrorKind::usage, "ask",
           "the question and one source need {} tokens; the model's context leaves {} beside the "
           "answer: ask for fewer tokens, or use a model with a longer context",
           tokens, budget);
    }
    std::string& text = results[0].text;
    text.resize(text.size() / 2);
    while (!text.empty() && !is_valid_utf8(text)) {
      text.pop_back();
    }
  }
}

/// Adds the attention of rows [begin, end) of every recorded head to the sources' tokens.
void measure_attention(const Recorder& recorder, const std::string& kind, int64_t begin,
                       int64_t end, Answer& answer) {
  double heads = 0.0;
  for (const RecordedAttention& attention : recorder.attentions()) {
    if (attention.place.kind != kind || attention.queries() < end) {
      continue;
    }
    for (int64_t head = 0; head < attention.heads(); ++head) {
      heads += static_cast<double>(end - begin);
      for (AnswerSource& source : answer.sources) {
        if (source.tokens.end > source.tokens.begin && source.tokens.end <= attention.keys()) {
          const Tensor weights =
              attention.record.weights(0, head, begin, end, source.tokens.begin, source.tokens.end);
          for (const float weight : weights.to_vector<float>()) {
            source.attention += weight;
          }
        }
      }
    }
  }
  answer.other_attention = 1.0;
  for (AnswerSource& source : answer.sources) {
    source.attention /= std::max(heads, 1.0);
    answer.other_attention -= source.attention;
  }
}

Tensor row_of_ids(const std::vector<int64_t>& ids) {
  Tensor row = Tensor::empty({1, static_cast<int64_t>(ids.size())}, DType::i64);
  std::copy(ids.begin(), ids.end(), row.data<int64_t>());
  return row;
}

/// Runs the whole text once more with a recorder in scope: the fast path keeps queries and keys,
/// and the weights of the answer's rows are computed from them.
void record_attention(const Model& model, const Prompt& prompt, const std::vector<int64_t>& ids,
                      Answer& answer) {
  if (ids.empty()) {
    return;
  }
  const NoGrad no_grad;
  const bool decoder = model.kind() == ModelKind::decoder;
  RecorderOptions wanted;
  wanted.kind = decoder ? "" : "cross";
  Recorder recorder(wanted);
  ModelInput input;
  input.want_logits = false;
  const auto rows = static_cast<int64_t>(ids.size());
  if (decoder) {
    std::vector<int64_t> all = prompt.ids;
    all.insert(all.end(), ids.begin(), ids.end() - 1);
    input.input_ids = row_of_ids(all);
    model.forward(input);
    // The row before a token is the one that chose it.
    const auto first = static_cast<int64_t>(prompt.ids.size()) - 1;
    measure_attention(recorder, "self", first, first + rows, answer);
  } else {
    std::vector<int64_t> shifted{generation_tokens(model).decoder_start};
    shifted.insert(shifted.end(), ids.begin(), ids.end() - 1);
    input.input_ids = row_of_ids(prompt.ids);
    input.decoder_input_ids = row_of_ids(shifted);
    model.forward(input);
    measure_attention(recorder, "cross", 0, rows, answer);
  }
}

}  // namespace

std::function<std::string(const std::string& message)> chat_renderer(const ChatTemplate& chat) {
  return [chat](const std::string& message) {
    const ChatMessage user{.role = "user", .content = message};
    return chat.render(std::span(&user, 1), {.add_generation_prompt = true});
  };
}

std::string rag_message(const std::vector<SearchResult>& sources, std::string_view question) {
  const bool korean = has_hangul(question);
  std::string message =
      korean
          ? "아래 자료만 근거로 질문에 답하세요. 근거로 쓴 자료를 [1]처럼 번호로 밝히세요. 자료에 "
            "답이 없으면 없다고 하세요.\n"
          : "Answer the question from the sources below only. Cite the sources you use by number, "
            "such as [1]. If they do not contain the answer, say so.\n";
  for (size_t i = 0; i < sources.size(); ++i) {
    message += "\n" + source_block(sources[i], i + 1) + "\n";
  }
  message += korean ? "\n질문: " : "\nQuestion: ";
  message += question;
  return message;
}

Answer ask(SearchIndex& index, const Model& model, const Tokenizer& tokenizer,
           std::string_view question, const AskOptions& options) {
  const bool decoder = model.kind() == ModelKind::decoder;
  if (!decoder && model.kind() != ModelKind::encoder_decoder) {
    fail(ErrorKind::usage, "ask",
         "an answer needs a language model (a decoder or encoder-decoder); this is a {}",
         model.model_type());
  }
  options.sampling.check();
  const std::vector<SearchResult> results = index.search(question, options.search);
  const int64_t context = model.context_length() > 0 ? model.context_length() : kDefaultContext;
  if (decoder && options.max_tokens >= context) {
    fail(ErrorKind::usage, "ask",
         "an answer of up to {} tokens leaves no room for the question: the model's context holds "
         "{} tokens; ask for fewer",
         options.max_tokens, context);
  }
  const int64_t budget = decoder ? context - options.max_tokens : context;
  const Prompt prompt = fit_prompt(results, question, tokenizer, options, budget);
  Answer answer;
  answer.sources = prompt.sources;
  answer.prompt_tokens = static_cast<int64_t>(prompt.ids.size());
  Request request;
  if (decoder) {
    request.prompt = prompt.ids;
  } else {
    request.encoder.input_ids = row_of_ids(prompt.ids);
  }
  const std::vector<int64_t> ids =
      write_answer(model, tokenizer, std::move(request), options, answer);
  if (options.attention) {
    record_attention(model, prompt, ids, answer);
  }
  return answer;
}

}  // namespace heed
