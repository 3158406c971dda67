#include <algorithm>
#include <ctime>

#include "serve/handlers.h"
#include "serve/service.h"
#include "serve/text_run.h"

namespace heed::serve {
namespace {

void write_entry(JsonWriter& json, const ModelRegistry::Entry& entry) {
  json.begin_object().field("id", entry.name).field("object", "model");
  json.field("created", static_cast<int64_t>(entry.created)).field("owned_by", "heed");
  json.field("aliases", entry.aliases).field("loaded", entry.loaded);
  if (!entry.model_type.empty()) {
    json.field("model_type", entry.model_type).field("tasks", entry.tasks);
    json.field("context_length", entry.context).field("parameters", entry.parameters);
  }
  json.end_object();
}

}  // namespace

void answer_health(const CallPtr& call) {
  if (call->service.ready()) {
    call->reply("{\"status\":\"ok\"}");
    return;
  }
  call->exchange->respond(error_response(
      503,
      call->service.models().ready() ? "the server is stopping" : "the models are being loaded", {},
      "not_ready"));
}

void answer_metrics(const CallPtr& call) {
  HttpResponse response;
  response.body = call->service.metrics_text();
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  static const int64_t kStarted = std::time(nullptr);
  response.fields.emplace_back("Process-Start-Time-Unix", std::to_string(kStarted));
  call->exchange->respond(std::move(response));
}

void answer_models(const CallPtr& call) {
  JsonWriter json;
  json.begin_object().field("object", "list").key("data").begin_array();
  for (const auto& entry : call->service.models().entries()) {
    write_entry(json, entry);
  }
  call->reply(json.end_array().end_object().take());
}

void answer_model(const CallPtr& call) {
  const std::string name = call->exchange->request().path.substr(call->route.path.size() - 1);
  for (const auto& entry : call->service.models().entries()) {
    if (entry.name == name || std::ranges::find(entry.aliases, name) != entry.aliases.end()) {
      JsonWriter json;
      write_entry(json, entry);
      call->reply(json.take());
      return;
    }
  }
  call->exchange->respond(
      error_response(404, "there is no model of this name; /v1/models lists the models", "model",
                     "model_not_found"));
}

void answer_openapi(const CallPtr& call) {
  static const std::string kDocument = openapi_document();
  call->reply(kDocument);
}

namespace {

/// The model that /props and /slots are about: the one of ?model=, else the only one that writes.
LoadedModelPtr shown_model(const CallPtr& call) {
  ModelRegistry& models = call->service.models();
  const std::string& query = call->exchange->request().query;
  constexpr std::string_view kModel = "model=";
  std::string name;
  if (query.starts_with(kModel)) {
    percent_decode(query.substr(kModel.size()), name);
  } else {
    name = models.only_name([](const Abilities&) { return true; });
  }
  return models.loaded(name);
}

}  // namespace

void answer_props(const CallPtr& call) {
  const LoadedModelPtr model = shown_model(call);
  JsonWriter json;
  json.begin_object().key("default_generation_settings").begin_object();
  json.field("n_ctx", model ? model->context_length() : 0).key("params").begin_object();
  json.field("n_predict", call->service.max_tokens() > 0 ? call->service.max_tokens() : -1);
  json.field("temperature", 0.8)
      .field("top_k", 40)
      .field("top_p", 0.95)
      .field("min_p", 0.05)
      .field("seed", -1);
  json.end_object().end_object().field("total_slots", call->service.slots());
  if (model) {
    json.field("model_alias", model->name).field("model_path", model->path.filename().string());
    json.field("chat_template", model->chat_template ? model->chat_template->source() : "");
    json.key("modalities").begin_object();
    json.field("vision", model->abilities.classify_image || model->abilities.caption);
    json.field("audio", model->abilities.transcribe).end_object();
  }
  call->reply(json.field("build_info", kFingerprint).end_object().take());
}

void answer_slots(const CallPtr& call) {
  const LoadedModelPtr model = shown_model(call);
  const int64_t active = call->service.metrics().active;
  JsonWriter json;
  json.begin_array();
  for (int64_t i = 0; i < call->service.slots(); ++i) {
    json.begin_object().field("id", i).field("n_ctx", model ? model->context_length() : 0);
    json.field("speculative", false).field("is_processing", i < active).end_object();
  }
  call->reply(json.end_array().take());
}

}  // namespace heed::serve
