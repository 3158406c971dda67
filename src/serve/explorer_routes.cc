#include <fmt/format.h>

#include <future>

#include "base/check.h"
#include "base/message_catalogue.h"
#include "explore/explorer_page.h"
#include "heed/serve.h"
#include "serve/handlers.h"
#include "serve/service.h"

namespace heed::serve {
namespace {

constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: "
    "blob:; connect-src 'self'; base-uri 'none'; form-action 'none'";

bool takes_gzip(const HttpRequest& request) {
  const std::string* encodings = request.find("Accept-Encoding");
  return encodings != nullptr && encodings->find("gzip") != std::string::npos;
}

std::vector<std::string> served_names(ModelRegistry& models) {
  std::vector<std::string> names;
  for (const auto& entry : models.entries()) {
    names.push_back(entry.name);
  }
  return names;
}

}  // namespace

ExplorerModel explorer_model(ModelRegistry& models, const std::string& name) {
  std::promise<ModelRegistry::Result> promise;
  models.get(name, [&](const ModelRegistry::Result& result) { promise.set_value(result); });
  const ModelRegistry::Result result = promise.get_future().get();
  if (!result.model) {
    fail(ErrorKind::usage, name, "{}",
         result.failure == ModelRegistry::Failure::missing
             ? "there is no model of this name"
             : "the model cannot be loaded; the server's log says why");
  }
  ExplorerModel model;
  model.id = name;
  model.path = result.model->path;
  model.tokenizer = result.model->tokenizer;
  // Shares the ownership of the whole: the model lives as long as a trace of it.
  model.model = std::shared_ptr<const Model>(result.model, result.model->model.get());
  return model;
}

void answer_page(const CallPtr& call) {
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.fields.emplace_back("Cache-Control", "no-cache");
  response.fields.emplace_back("Content-Security-Policy", kPagePolicy);
  response.fields.emplace_back("Vary", "Accept-Encoding");
  if (takes_gzip(call->exchange->request())) {
    response.body = std::string(explorer_page_gzip());
    response.fields.emplace_back("Content-Encoding", "gzip");
  } else {
    response.body = explorer_page();
  }
  call->exchange->respond(std::move(response));
}

namespace {

/// What is wrong, in the language that the page asks for.
void translate_failure(const HttpRequest& request, Explorer::Answer& answer) {
  const std::string* language = request.find("Accept-Language");
  if (answer.status < 400 || language == nullptr || !language->starts_with("ko")) {
    return;
  }
  const Json error = Json::parse(answer.json, "answer").at("error");
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.field("message", korean_message(error.string("message")));
  json.field("type", error.string("type")).key("param");
  error.has("param") ? json.value(error.string("param")) : json.null();
  answer.json = json.field("code", error.string("code")).end_object().end_object().take();
}

void respond(const CallPtr& call, Explorer::Answer answer) {
  translate_failure(call->exchange->request(), answer);
  HttpResponse response{answer.status, std::move(answer.json)};
  if (answer.status == 503) {
    response.fields.emplace_back("Retry-After", "1");
  }
  call->exchange->respond(std::move(response));
}

/// Makes a trace of what a text request has read and written so far.
Explorer::Answer trace_request(const CallPtr& call) {
  const std::string id = call->text("request");
  const auto found = call->service.recent().find(id, static_cast<size_t>(call->integer("choice")));
  if (!found) {
    throw BadRequest("there is no such request, or it is too long ago", "request",
                     "request_not_found", 404);
  }
  const RecentRequests::Choice& choice = found->choice;
  JsonWriter body;
  body.begin_object().field("model", found->model);
  const bool two = !choice.encoder_ids.empty();
  body.field("ids", two ? choice.encoder_ids : choice.ids);
  if (two) {
    body.field("target_ids", choice.ids);
  }
  Explorer& explorer = call->service.explorer();
  explorer.set_models(served_names(call->service.models()));
  return explorer.answer("POST", "/heed/v1/traces", body.end_object().take());
}

}  // namespace

void answer_trace(const CallPtr& call) { respond(call, trace_request(call)); }

void answer_tile(const CallPtr& call) {
  const Explorer::Answer made = trace_request(call);
  if (made.status != 200) {
    respond(call, made);
    return;
  }
  const std::string trace = Json::parse(made.json, "trace").string("id");
  JsonWriter body;
  body.begin_object().field("kind", call->text("kind")).field("layer", call->integer("layer"));
  body.field("head", call->integer("head")).field("what", call->text("what"));
  body.field("level", call->integer("level")).field("row", call->integer("row"));
  body.field("column", call->integer("column"));
  Explorer& explorer = call->service.explorer();
  respond(call,
          explorer.answer("POST", "/heed/v1/traces/" + trace + "/tile", body.end_object().take()));
  explorer.answer("DELETE", "/heed/v1/traces/" + trace, "");
}

void answer_explorer(const CallPtr& call) {
  const HttpRequest& request = call->exchange->request();
  Explorer& explorer = call->service.explorer();
  explorer.set_models(served_names(call->service.models()));
  const std::string target = request.path + (request.query.empty() ? "" : "?" + request.query);
  respond(call, explorer.answer(request.method, target, request.body));
}

void answer_explorer_generate(const CallPtr& call) {
  const ExchangePtr& exchange = call->exchange;
  bool begun = false;
  const auto begin = [&] {
    HttpResponse head;
    head.content_type = "text/event-stream";
    head.fields.emplace_back("Cache-Control", "no-store");
    exchange->begin_stream(std::move(head));
    begun = true;
  };
  Explorer::Answer answer = call->service.explorer().generate(
      exchange->request().body, [&](std::string_view event, const std::string& json) {
        if (!begun) {
          begin();
        }
        return exchange->write(fmt::format("event: {}\ndata: {}\n\n", event, json)) &&
               !exchange->cancelled();
      });
  translate_failure(exchange->request(), answer);
  if (!begun) {
    exchange->respond({answer.status, answer.json});
    return;
  }
  if (answer.status != 200) {
    exchange->write(fmt::format("event: error\ndata: {}\n\n", answer.json));
  }
  exchange->end_stream();
}

}  // namespace heed::serve
