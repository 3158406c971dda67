#include "serve/handlers.h"
#include "serve/service.h"

namespace heed::serve {
namespace {

void write_entry(JsonWriter& json, const ModelRegistry::Entry& entry) {
  json.begin_object().field("id", entry.name).field("object", "model");
  json.field("created", static_cast<int64_t>(entry.created)).field("owned_by", "heed");
  json.field("loaded", entry.loaded);
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
    if (entry.name == name) {
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

void answer_transcription(const CallPtr& call) {
  call->exchange->respond(error_response(
      501, "no speech model is served here; this version of heed serves text and image models", {},
      "not_supported"));
}

void answer_openapi(const CallPtr& call) { call->reply(openapi_document()); }

}  // namespace heed::serve
