#include <cmath>

#include "serve/handlers.h"
#include "serve/log_probabilities.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

/// The request's settings as llama.cpp's server repeats them.
std::string settings_json(const Call& call, const GenerationPlan& plan) {
  const Sampling& sampling = plan.sampling;
  JsonWriter json;
  json.begin_object().field("n_predict", plan.max_tokens).field("seed", sampling.seed);
  json.field("temperature", sampling.temperature).field("top_k", sampling.top_k);
  json.field("top_p", sampling.top_p).field("min_p", sampling.min_p);
  json.field("typical_p", sampling.typical_p).field("top_n_sigma", sampling.top_n_sigma);
  json.field("repeat_penalty", sampling.repetition_penalty);
  json.field("presence_penalty", sampling.presence_penalty);
  json.field("frequency_penalty", sampling.frequency_penalty);
  json.field("dry_multiplier", sampling.dry_multiplier).field("dry_base", sampling.dry_base);
  json.field("dry_allowed_length", sampling.dry_allowed_length);
  json.field("dry_penalty_last_n", sampling.dry_range).field("mirostat", sampling.mirostat);
  json.field("mirostat_tau", sampling.mirostat_tau).field("mirostat_eta", sampling.mirostat_eta);
  json.field("stop", plan.stops).field("ignore_eos", plan.ignore_end);
  json.field("stream", plan.stream).field("n_probs", call.integer("n_probs"));
  json.field("grammar", call.text("grammar")).key("logit_bias").begin_array();
  for (const auto& [id, bias] : sampling.logit_bias) {
    json.begin_object().field("bias", static_cast<double>(bias)).field("token", id).end_object();
  }
  for (const int64_t id : plan.ignore_end ? call.model->ids.end : std::vector<int64_t>()) {
    json.begin_object().key("bias").null().field("token", id).end_object();  // never chosen
  }
  return json.end_array().end_object().take();
}

/// llama.cpp's /completion: `content` and `stop` in every event.
class LlamaFormat : public AnswerFormat {
 public:
  LlamaFormat(const Call& call, const GenerationPlan& plan)
      : model_(call.model),
        model_name_(call.model_name),
        id_(new_id("cmpl-")),
        settings_(settings_json(call, plan)),
        fields_(call.texts("response_fields")),
        list_(plan.prompts.size() > 1),
        probabilities_(call.integer("n_probs") > 0),
        after_sampling_(call.flag("post_sampling_probs")),
        return_tokens_(call.flag("return_tokens")),
        timings_(call.flag("timings_per_token")) {
    for (const auto& prompt : plan.prompts) {
      prompts_.push_back(model_->tokenizer.decode(prompt, false));
    }
  }

  const std::string& id() const override { return id_; }
  std::string whole(const std::vector<TextChoice>& choices, const Usage&) override {
    std::string all;
    for (const TextChoice& choice : choices) {
      all += (all.empty() ? "" : ",") + chosen_fields(last(choice, choice.text, true));
    }
    return list_ ? "[" + all + "]" : all;
  }
  std::string piece(const TextChoice& choice, const std::string& text, size_t token) override {
    JsonWriter json;
    json.begin_object().field("id", id_).field("index", choice.index).field("content", text);
    json.key("tokens").begin_array().value(choice.tokens[token].id).end_array();
    json.field("stop", false).field("id_slot", -1);
    json.field("tokens_predicted", choice.tokens.size());
    json.field("tokens_evaluated", choice.prompt_tokens);
    write_probabilities(json, choice, token, token + 1);
    if (timings_) {
      write_timings(json, choice);
    }
    return event(json.end_object().take());
  }
  std::string finish(const TextChoice& choice, const std::string& text) override {
    return event(last(choice, text, false));
  }
  std::string end(const std::vector<TextChoice>&, const Usage&) override { return {}; }
  std::string progress(const TextChoice& choice) override {
    JsonWriter json;
    json.begin_object().field("index", choice.index).field("content", "").field("stop", false);
    json.key("tokens").begin_array().end_array();
    write_progress(json, choice);
    return event(json.end_object().take());
  }

 private:
  std::string last(const TextChoice& choice, const std::string& text, bool is_whole) const {
    const bool at_word = choice.stream.stopped();
    JsonWriter json;
    json.begin_object().field("id", id_).field("index", choice.index).field("content", text);
    json.key("tokens").begin_array();
    for (size_t i = 0; is_whole && return_tokens_ && i < choice.tokens.size(); ++i) {
      json.value(choice.tokens[i].id);
    }
    json.end_array().field("id_slot", -1).field("stop", true).field("model", model_name_);
    json.field("tokens_predicted", choice.tokens.size());
    json.field("tokens_evaluated", choice.prompt_tokens);
    json.field("tokens_cached", choice.cached_tokens);
    json.key("generation_settings").raw(settings_).field("prompt", prompts_[choice.prompt]);
    json.field("has_new_line", choice.text.find('\n') != std::string::npos);
    json.field("truncated", false);
    json.field("stop_type", at_word ? "word" : choice.finish_reason == "stop" ? "eos" : "limit");
    json.field("stopping_word", "");
    if (is_whole) {
      write_probabilities(json, choice, 0, choice.tokens.size());
    }
    write_timings(json, choice);
    return json.end_object().take();
  }

  void write_probabilities(JsonWriter& json, const TextChoice& choice, size_t from,
                           size_t to) const {
    if (probabilities_) {
      json.key("completion_probabilities").begin_array();
      write_llama_probabilities(json, *model_, choice, from, to, after_sampling_);
      json.end_array();
    }
  }

  /// The fields that the client asked for, under the names it used; all where it named none.
  std::string chosen_fields(const std::string& answer) const {
    if (fields_.empty()) {
      return answer;
    }
    const Json whole = Json::parse(answer, "answer");
    JsonWriter json;
    json.begin_object();
    for (const std::string& name : fields_) {
      std::optional<Json> at = whole;
      std::string_view rest = name;
      while (at && !rest.empty()) {
        const size_t slash = std::min(rest.find('/'), rest.size());
        at = at->is_object() ? at->find(rest.substr(0, slash)) : std::nullopt;
        rest.remove_prefix(std::min(slash + 1, rest.size()));
      }
      if (at) {
        json.key(name).raw(at->dump());
      }
    }
    return json.end_object().take();
  }

  LoadedModelPtr model_;
  std::string model_name_, id_, settings_;
  std::vector<std::string> fields_, prompts_;
  bool list_, probabilities_, after_sampling_, return_tokens_, timings_;
};

}  // namespace

void answer_llama_completion(const CallPtr& call) {
  GenerationPlan plan = common_plan(*call, "n_predict");
  plan.ignore_end = call->flag("ignore_eos");
  plan.progress = call->flag("return_progress");
  if (call->integer("n_probs") > 0) {
    plan.log_probabilities = call->integer("n_probs");
  }
  read_prompts(*call, plan);
  auto format = std::make_shared<LlamaFormat>(*call, plan);
  run_generation(call, std::move(plan), std::move(format));
}

}  // namespace heed::serve
