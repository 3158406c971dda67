#include "serve/translate.h"

#include <fmt/format.h>

#include "serve/encoder_run.h"
#include "serve/handlers.h"
#include "serve/service.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

ModelInput encoder_input(const EncodedText& text) {
  const auto length = static_cast<int64_t>(text.ids.size());
  ModelInput input;
  input.input_ids = Tensor::from(text.ids, {1, length});
  input.attention_mask =
      Tensor::from(std::vector<int64_t>(static_cast<size_t>(length), 1), {1, length});
  return input;
}

/// {"data": [{"index", "text"}]}, or events with pieces of one text.
class TranslateFormat : public AnswerFormat {
 public:
  explicit TranslateFormat(const Call& call)
      : model_name_(call.model_name), id_(new_id("trans-")) {}

  const std::string& id() const override { return id_; }
  std::string whole(const std::vector<TextChoice>& choices, const Usage& usage) override {
    JsonWriter json;
    json.begin_object().field("id", id_).field("object", "list").field("model", model_name_);
    json.key("data").begin_array();
    for (const TextChoice& choice : choices) {
      json.begin_object().field("index", choice.index).field("text", choice.text);
      json.field("finish_reason", choice.finish_reason).end_object();
    }
    json.end_array();
    write_usage(json, usage);
    return json.end_object().take();
  }
  std::string piece(const TextChoice& choice, const std::string& text, size_t) override {
    return chunk(choice, text);
  }
  std::string finish(const TextChoice& choice, const std::string& text) override {
    return chunk(choice, text);
  }
  std::string end(const std::vector<TextChoice>&, const Usage&) override {
    return "data: [DONE]\n\n";
  }

 private:
  std::string chunk(const TextChoice& choice, const std::string& text) const {
    JsonWriter json;
    json.begin_object()
        .field("id", id_)
        .field("index", choice.index)
        .field("text", text)
        .key("finish_reason");
    choice.finish_reason.empty() ? json.null() : json.value(choice.finish_reason);
    return event(json.end_object().take());
  }

  std::string model_name_, id_;
};

/// Beams of all texts search together, on the engine's thread.
void generate_by_beams(const CallPtr& call, std::vector<Request> requests,
                       const BeamOptions& options, int64_t prompt_tokens) {
  SingleTask task;
  task.model = call->model;
  task.client = call->client;
  task.cancelled = [call] { return call->exchange->cancelled(); };
  task.on_error = [call](const std::string& message) { call->fail(500, message); };
  task.run = [call, requests = std::move(requests), options, prompt_tokens] {
    const auto found = beam_search(*call->model->model, requests, options);
    JsonWriter json;
    Usage usage{prompt_tokens, 0};
    json.begin_object().field("object", "list").field("model", call->model_name);
    json.key("data").begin_array();
    for (size_t i = 0; i < found.size(); ++i) {
      const Hypothesis& best = found[i].front();
      usage.completion_tokens += static_cast<int64_t>(best.ids.size());
      json.begin_object().field("index", i);
      json.field("text", call->model->tokenizer.decode(best.ids, true));
      json.field("score", best.score).end_object();
    }
    json.end_array();
    write_usage(json, usage);
    annotate_usage(*call, usage);
    call->reply(json.end_object().take());
  };
  call->service.engine().submit(std::move(task));
}

}  // namespace

void generate_from_encoder(const CallPtr& call, std::vector<ModelInput> inputs,
                           int64_t prompt_tokens) {
  GenerationPlan plan;
  plan.max_tokens = call->integer("max_tokens");
  plan.stream = call->flag("stream");
  plan.is_answer = true;
  plan.prompts.resize(inputs.size());
  plan.encoder_inputs = std::move(inputs);
  const int64_t beams = call->integer("num_beams");
  if (beams == 1) {
    auto format = std::make_shared<TranslateFormat>(*call);
    run_generation(call, std::move(plan), std::move(format));
    return;
  }
  if (plan.stream) {
    throw BadRequest("a beam search cannot be streamed; leave 'stream' out or set 'num_beams' to 1",
                     "stream");
  }
  Request rules;
  apply_generation_tokens(*call->model->model, rules);
  rules.max_tokens = plan.max_tokens;
  std::vector<Request> requests(plan.encoder_inputs.size(), rules);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].encoder = plan.encoder_inputs[i];
  }
  generate_by_beams(call, std::move(requests),
                    {.beams = beams,
                     .length_penalty = call->number("length_penalty"),
                     .early_stopping = early_stopping_from_name(call->text("early_stopping")),
                     .max_tokens = plan.max_tokens},
                    prompt_tokens);
}

void answer_translate(const CallPtr& call) {
  const std::vector<std::string> input = call->texts("input");
  if (input.empty()) {
    throw BadRequest("'input' is an empty list", "input");
  }
  std::vector<ModelInput> inputs;
  int64_t prompt_tokens = 0;
  for (const std::string& text : input) {
    const EncodedText encoded = encode_text(*call->model, text, "input");
    prompt_tokens += static_cast<int64_t>(encoded.ids.size());
    inputs.push_back(encoder_input(encoded));
  }
  generate_from_encoder(call, std::move(inputs), prompt_tokens);
}

}  // namespace heed::serve
