#include "serve/text_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <random>

#include "serve/constraint.h"
#include "serve/service.h"

namespace heed::serve {
namespace {

constexpr int64_t kMostSequences = 256;  // of one request: prompts times samples

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
  void on_error(const std::string& message);
  void complete();
  Usage usage() const;

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
    call_->exchange->write(format_->begin(choices_));
  }
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
  request.on_token = [self, &choice](const SampledToken& token) {
    return self->on_token(choice, token);
  };
  return task;
}

bool TextRun::on_token(TextChoice& choice, const SampledToken& token) {
  if (failed_ || call_->exchange->cancelled()) {
    return false;
  }
  choice.tokens.push_back({token.id, token.log_probability, token.top});
  if (std::find(choice.end.begin(), choice.end.end(), token.id) != choice.end.end()) {
    return true;  // the scheduler ends it
  }
  const std::string text = choice.stream.push(token.id);
  choice.text += text;
  if (plan_.stream && (!text.empty() || plan_.log_probabilities >= 0)) {
    if (!call_->exchange->write(format_->piece(choice, text, choice.tokens.size() - 1))) {
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
    call_->exchange->write(format_->finish(choice, rest));
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
  }
  return usage;
}

void TextRun::complete() {
  const Usage total = usage();
  annotate_usage(*call_, total);
  if (plan_.stream) {
    call_->exchange->write(format_->end(choices_, total));
    call_->exchange->end_stream();
  } else {
    call_->reply(format_->whole(choices_, total));
  }
}

/// {"token id": bias}.
std::vector<std::pair<int64_t, float>> read_logit_bias(const Call& call) {
  std::vector<std::pair<int64_t, float>> biases;
  call.body->at("logit_bias").for_each([&](const std::string& key, const Json& value) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 ||
        id >= call.model->model->vocab_size()) {
      throw BadRequest("'logit_bias' has a key that is no token id of the model", "logit_bias");
    }
    biases.emplace_back(id, static_cast<float>(value.number()));
  });
  return biases;
}

std::vector<int64_t> read_token_ids(const Call& call, const std::string& name) {
  std::vector<int64_t> ids;
  if (call.has(name)) {
    for (const Json& id : call.body->at(name).elements()) {
      const auto most = static_cast<double>(call.model->model->vocab_size() - 1);
      if (!id.is_integer() || !(id.number() >= 0 && id.number() <= most)) {
        throw BadRequest(fmt::format("'{}' holds something that is no token id of the model", name),
                         name);
      }
      ids.push_back(id.integer());
    }
  }
  return ids;
}

Sampling read_sampling(const Call& call) {
  constexpr double kLeast = 1e-9;  // top_p 0 means the best token
  Sampling sampling;
  sampling.temperature = call.number("temperature");
  sampling.top_n_sigma = call.number("top_n_sigma");
  sampling.top_k = call.integer("top_k");
  sampling.top_p = std::max(call.number("top_p"), kLeast);
  sampling.min_p = call.number("min_p");
  sampling.typical_p = std::max(call.number("typical_p"), kLeast);
  sampling.mirostat = call.integer("mirostat");
  sampling.mirostat_tau = call.number("mirostat_tau");
  sampling.mirostat_eta = call.number("mirostat_eta");
  if (sampling.mirostat == 1) {
    throw BadRequest("'mirostat' must be 0 (off) or 2", "mirostat");
  }
  sampling.repetition_penalty = call.number("repetition_penalty");
  sampling.frequency_penalty = call.number("frequency_penalty");
  sampling.presence_penalty = call.number("presence_penalty");
  sampling.no_repeat_ngram_size = call.integer("no_repeat_ngram_size");
  if (call.has("logit_bias")) {
    sampling.logit_bias = read_logit_bias(call);
  }
  sampling.dry_multiplier = call.number("dry_multiplier");
  sampling.dry_base = call.number("dry_base");
  sampling.dry_allowed_length = call.integer("dry_allowed_length");
  sampling.dry_range = call.integer("dry_penalty_last_n");
  if (sampling.dry_multiplier > 0.0) {
    sampling.dry_breakers =
        tokens_containing(call.model->tokenizer, call.has("dry_sequence_breakers")
                                                     ? call.texts("dry_sequence_breakers")
                                                     : default_dry_breakers());
  }
  const int64_t seed = call.has("seed") ? call.integer("seed") : -1;
  sampling.seed =
      seed >= 0 ? static_cast<uint64_t>(seed) : (uint64_t{std::random_device()()} << 16);
  return sampling;
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
      throw BadRequest(fmt::format("the prompt has {} tokens; the context of {} has {}", length,
                                   call.model->name, context),
                       call.has("messages") ? "messages" : "prompt", "context_length_exceeded");
    }
  }
}

}  // namespace

void run_generation(const CallPtr& call, GenerationPlan plan,
                    std::shared_ptr<AnswerFormat> format) {
  check_plan(*call, plan);
  std::make_shared<TextRun>(call, std::move(plan), std::move(format))->start();
}

GenerationPlan common_plan(const Call& call, const std::string& length_field) {
  constexpr int64_t kUnlimited = 1 << 20;
  GenerationPlan plan;
  plan.max_tokens = call.integer(length_field);
  if (plan.max_tokens < 0 || (!call.has(length_field) && plan.max_tokens == 0)) {
    // As many as the context holds; of a model without a limit, a generous number.
    plan.max_tokens = call.model->context_length() > 0 ? call.model->context_length() : kUnlimited;
  }
  plan.stops = call.texts("stop");
  plan.stream = call.flag("stream");
  plan.stop_token_ids = read_token_ids(call, "stop_token_ids");
  plan.sampling = read_sampling(call);
  plan.constraint = read_constraint(call);
  return plan;
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
  json.field("total_tokens", usage.prompt_tokens + usage.completion_tokens).end_object();
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
