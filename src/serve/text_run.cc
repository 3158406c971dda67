#include "serve/text_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "serve/service.h"

namespace heed::serve {
namespace {

constexpr int64_t kMostSequences = 256;  // of one request: prompts times samples

/// The tokens that an encoder-decoder's encoder reads; none for images and speech.
std::vector<int64_t> encoder_tokens(const ModelInput& input) {
  return input.input_ids.defined() ? input.input_ids.to_vector<int64_t>() : std::vector<int64_t>();
}

/// A request whose texts are being generated.
class TextRun : public std::enable_shared_from_this<TextRun> {
 public:
  TextRun(CallPtr call, GenerationPlan plan, std::shared_ptr<AnswerFormat> format)
      : call_(std::move(call)), plan_(std::move(plan)), format_(std::move(format)) {}

  void start();

 private:
  GenerationTask task_for(size_t choice);
  bool on_token(TextChoice& choice, const SampledToken& token);
  void on_finish(TextChoice& choice, FinishReason reason);
  void on_prompt(TextChoice& choice, int64_t read, int64_t shared, int64_t all);
  void on_error(const std::string& message);
  void complete();
  Usage usage() const;
  /// False where the client has gone. An empty piece would end the body.
  bool send(const std::string& events) { return events.empty() || call_->exchange->write(events); }

  CallPtr call_;
  GenerationPlan plan_;
  std::shared_ptr<AnswerFormat> format_;
  std::vector<TextChoice> choices_;
  size_t left_ = 0;
  bool failed_ = false;
};

void TextRun::start() {
  for (size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
    for (int64_t sample = 0; sample < plan_.samples; ++sample) {
      // An answer begins a text of its own; a grammar's text is its tokens' own.
      const bool continues = !plan_.is_answer || plan_.constraint;
      choices_.emplace_back(*call_->model, plan_.stops,
                            continues ? plan_.prompts[prompt] : std::vector<int64_t>());
      choices_.back().index = static_cast<int64_t>(choices_.size()) - 1;
      choices_.back().prompt = prompt;
    }
  }
  left_ = choices_.size();
  if (plan_.stream) {
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.fields.emplace_back("Cache-Control", "no-store");
    head.fields.emplace_back("X-Accel-Buffering", "no");  // nginx passes every piece on at once
    call_->exchange->begin_stream(std::move(head));
    send(format_->begin(choices_));
  }
  call_->service.recent().begin(format_->id(), call_->model_name, choices_.size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    call_->service.engine().submit(task_for(i));
  }
}

GenerationTask TextRun::task_for(size_t index) {
  const auto self = shared_from_this();
  TextChoice& choice = choices_[index];
  GenerationTask task;
  task.model = call_->model;
  task.client = call_->client;
  task.cancelled = [self] { return self->call_->exchange->cancelled(); };
  task.on_error = [self](const std::string& message) { self->on_error(message); };
  task.on_finish = [self, &choice](FinishReason reason) { self->on_finish(choice, reason); };
  Request& request = task.request;
  request.prompt = plan_.prompts[choice.prompt];
  if (!plan_.encoder_inputs.empty()) {
    request.encoder = plan_.encoder_inputs[choice.prompt];
  }
  apply_generation_tokens(*call_->model->model, request);
  if (plan_.ignore_end) {
    request.suppress_tokens.insert(request.suppress_tokens.end(), request.end.begin(),
                                   request.end.end());
    request.end.clear();
  }
  for (const int64_t id : plan_.stop_token_ids) {
    request.end.push_back(id);
  }
  choice.end = request.end;
  request.sampling = plan_.sampling;
  request.constraint = plan_.constraint;
  request.stream = static_cast<uint64_t>(index) % static_cast<uint64_t>(plan_.samples);
  request.max_tokens = plan_.max_tokens;
  if (const int64_t context = call_->model->context_length(); context > 0) {
    const auto used = static_cast<int64_t>(request.prompt.size());
    request.max_tokens = std::min(request.max_tokens, std::max<int64_t>(context + 1 - used, 0));
  }
  request.top_log_probabilities = std::max<int64_t>(plan_.log_probabilities, 0);
  call_->service.recent().set_prompt(format_->id(), index, request.prompt,
                                     encoder_tokens(request.encoder));
  request.on_prompt = [self, &choice](int64_t read, int64_t shared, int64_t all) {
    self->on_prompt(choice, read, shared, all);
  };
  request.on_token = [self, &choice](const SampledToken& token) {
    return self->on_token(choice, token);
  };
  return task;
}

void TextRun::on_prompt(TextChoice& choice, int64_t read, int64_t shared, int64_t all) {
  if (choice.prompt_tokens == 0) {
    choice.began = std::chrono::steady_clock::now();
  }
  choice.prompt_tokens = all;
  choice.read_tokens = read;
  choice.cached_tokens = shared;
  if (plan_.stream && plan_.progress && !failed_) {
    choice.last_token = std::chrono::steady_clock::now();
    send(format_->progress(choice));
  }
}

bool TextRun::on_token(TextChoice& choice, const SampledToken& token) {
  if (failed_ || call_->exchange->cancelled()) {
    return false;
  }
  choice.last_token = std::chrono::steady_clock::now();
  if (choice.tokens.empty()) {
    choice.first_token = choice.last_token;
  }
  call_->service.recent().add_token(format_->id(), static_cast<size_t>(choice.index), token.id);
  choice.tokens.push_back({token.id, token.log_probability, token.top});
  if (std::find(choice.end.begin(), choice.end.end(), token.id) != choice.end.end()) {
    return true;  // the scheduler ends it
  }
  const std::string text = choice.stream.push(token.id);
  choice.text += text;
  if (plan_.stream && (!text.empty() || plan_.log_probabilities >= 0)) {
    if (!send(format_->piece(choice, text, choice.tokens.size() - 1))) {
      return false;
    }
  }
  return !choice.stream.stopped();
}

void TextRun::on_finish(TextChoice& choice, FinishReason reason) {
  if (failed_) {
    return;
  }
  const std::string rest = choice.stream.finish();
  choice.text += rest;
  choice.finish_reason = reason == FinishReason::length ? "length" : "stop";
  if (plan_.stream) {
    send(format_->finish(choice, rest));
  }
  if (--left_ == 0) {
    complete();
  }
}

void TextRun::on_error(const std::string& message) {
  if (failed_) {
    return;
  }
  failed_ = true;
  call_->exchange->annotate_error(message);
  const HttpResponse response = error_response(500, message);
  if (plan_.stream) {
    call_->exchange->write(event(response.body));
    call_->exchange->end_stream();
  } else {
    call_->exchange->respond(response);
  }
}

Usage TextRun::usage() const {
  Usage usage;
  for (const auto& prompt : plan_.prompts) {
    usage.prompt_tokens += static_cast<int64_t>(prompt.size());
  }
  for (const ModelInput& input : plan_.encoder_inputs) {
    usage.prompt_tokens += input.input_ids.defined() ? input.input_ids.numel() : 0;
  }
  for (const TextChoice& choice : choices_) {
    usage.completion_tokens += static_cast<int64_t>(choice.tokens.size());
    usage.cached_tokens += choice.cached_tokens;
  }
  return usage;
}

void TextRun::complete() {
  const Usage total = usage();
  annotate_usage(*call_, total);
  if (plan_.stream) {
    send(format_->end(choices_, total));
    call_->exchange->end_stream();
  } else {
    call_->reply(format_->whole(choices_, total));
  }
}

void check_plan(const Call& call, const GenerationPlan& plan) {
  const auto sequences = static_cast<int64_t>(plan.prompts.size()) * plan.samples;
  if (sequences > kMostSequences) {
    throw BadRequest(fmt::format("{} prompts with n = {} are {} texts; at most {} are allowed",
                                 plan.prompts.size(), plan.samples, sequences, kMostSequences),
                     "n");
  }
  const int64_t context = call.model->context_length();
  for (const auto& prompt : plan.prompts) {
    const auto length = static_cast<int64_t>(prompt.size());
    if (context > 0 && length > context) {
      BadRequest bad(fmt::format("the prompt has {} tokens; the context of {} has {}", length,
                                 call.model->name, context),
                     call.has("messages") ? "messages" : "prompt", "context_length_exceeded");
      bad.set_type("exceed_context_size_error");
      bad.add_number("n_prompt_tokens", length);
      bad.add_number("n_ctx", context);
      throw bad;
    }
  }
}

}  // namespace

void run_generation(const CallPtr& call, GenerationPlan plan,
                    std::shared_ptr<AnswerFormat> format) {
  check_plan(*call, plan);
  std::make_shared<TextRun>(call, std::move(plan), std::move(format))->start();
}

std::string event(const std::string& json) { return "data: " + json + "\n\n"; }

std::string named_event(const std::string& name, const std::string& json) {
  return "event: " + name + "\ndata: " + json + "\n\n";
}

std::vector<TokenId> prompt_tokens(const LoadedModel& model, const std::string& text,
                                   bool add_special) {
  std::vector<TokenId> tokens = model.tokenizer.encode_ids(text, add_special);
  const SpecialTokens& special = model.tokenizer.special();
  if (tokens.empty() && special.bos) {
    tokens.push_back(*special.bos);
  } else if (tokens.empty() && special.eos) {
    tokens.push_back(*special.eos);
  }
  return tokens;
}

std::string new_id(const std::string& prefix) {
  static const uint64_t kProcess =
      (uint64_t{std::random_device()()} << 32) | std::random_device()();
  static std::atomic<uint64_t> count{0};
  return fmt::format("{}{:016x}{:06x}", prefix, kProcess, ++count);
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.key("usage").begin_object();
  json.field("prompt_tokens", usage.prompt_tokens);
  json.field("completion_tokens", usage.completion_tokens);
  json.field("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object().field("cached_tokens", usage.cached_tokens);
  json.end_object().end_object();
}

void write_timings(JsonWriter& json, const TextChoice& choice) {
  const auto milliseconds = [](auto from, auto to) {
    return std::max(std::chrono::duration<double, std::milli>(to - from).count(), 0.0);
  };
  const bool written = !choice.tokens.empty();
  const double prompt =
      choice.prompt_tokens == 0
          ? 0.0
          : milliseconds(choice.began, written ? choice.first_token : choice.last_token);
  const double rest = written ? milliseconds(choice.first_token, choice.last_token) : 0.0;
  const auto read = static_cast<double>(choice.read_tokens - choice.cached_tokens);
  // The first token comes from the prompt's last position: it costs no step of its own.
  const double steps = written ? static_cast<double>(choice.tokens.size() - 1) : 0.0;
  const auto rate = [](double of, double per) { return per > 0.0 ? of / per : 0.0; };
  json.key("timings").begin_object().field("cache_n", choice.cached_tokens);
  json.field("prompt_n", choice.read_tokens - choice.cached_tokens).field("prompt_ms", prompt);
  json.field("prompt_per_token_ms", rate(prompt, read));
  json.field("prompt_per_second", rate(read * 1e3, prompt));
  json.field("predicted_n", choice.tokens.size()).field("predicted_ms", rest);
  json.field("predicted_per_token_ms", rate(rest, steps));
  json.field("predicted_per_second", rate(steps * 1e3, rest)).end_object();
}

void write_progress(JsonWriter& json, const TextChoice& choice) {
  json.key("prompt_progress").begin_object().field("total", choice.prompt_tokens);
  json.field("cache", choice.cached_tokens).field("processed", choice.read_tokens).end_object();
  write_timings(json, choice);
}

void annotate_usage(const Call& call, const Usage& usage) {
  call.exchange->annotate([&](Exchange::Note& note) {
    note.prompt_tokens = usage.prompt_tokens;
    note.completion_tokens = usage.completion_tokens;
  });
}

std::string token_text(const LoadedModel& model, int64_t id) {
  return model.tokenizer.decode(std::vector<TokenId>{id}, false);
}

}  // namespace heed::serve
