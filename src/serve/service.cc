#include "serve/service.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/throw_if_stopped.h"
#include "serve/form.h"

namespace heed::serve {
namespace {

constexpr const char* kClientGone = "the client has gone";
constexpr JsonLimits kBodyLimits{.depth = 32, .values = 1'000'000, .token = uint64_t{16} << 20};

bool is_json(const HttpRequest& request) {
  const std::string* type = request.find("Content-Type");
  if (type == nullptr) {
    return false;
  }
  std::string_view media = std::string_view(*type).substr(0, type->find(';'));
  while (media.ends_with(' ')) {
    media.remove_suffix(1);
  }
  return equal_ignoring_case(media, "application/json");
}

}  // namespace

void answer_errors(const CallPtr& call, const std::function<void()>& body,
                   const std::function<void(HttpResponse)>& respond) {
  const auto answer = [&](HttpResponse response, const std::string& message) {
    call->exchange->annotate_error(message);
    respond ? respond(std::move(response)) : call->exchange->respond(std::move(response));
  };
  try {
    body();
  } catch (const Stopped&) {
    answer(error_response(499, kClientGone), kClientGone);
  } catch (const BadRequest& bad) {
    answer(error_response(bad.status(), bad.what(), bad.param(), bad.code(), bad.type(),
                          bad.numbers()),
           bad.what());
  } catch (const Error& error) {
    const int status = error.kind() == ErrorKind::runtime ? 500 : 400;
    answer(error_response(status, error.what()), error.what());
  } catch (const std::bad_alloc&) {
    answer(error_response(503, "out of memory; try a smaller request"), "out of memory");
  } catch (const std::exception& error) {
    answer(error_response(500, error.what()), error.what());
  }
}

Service::Service(Options options, ModelRegistry::Options models)
    : options_(std::move(options)),
      indexes_(options_.indexes),
      prepare_("heed-prepare", options_.threads),
      images_("heed-images", options_.threads),
      explore_("heed-explore", 1),
      retrieval_("heed-search", 1),
      speech_("heed-speech", 1),
      models_(std::move(models)),
      engine_(options_.engine, metrics_),
      explorer_({}, [this](const std::string& name) { return explorer_model(models_, name); },
                {.runs = options_.runs, .start_text = {}, .start_model = options_.start_model}) {}

Service::~Service() {
  // Whoever has been answered has been so by now: what is queued is dropped, and what runs ends
  // while everything it uses is still there.
  for (WorkQueue* queue : {&prepare_, &images_, &explore_, &retrieval_, &speech_}) {
    queue->stop(WorkQueue::Queued::drop);
  }
}

/// Where a call is answered. Images take seconds to decode, which no text may wait for.
WorkQueue& Service::lane(const Call& call) {
  switch (call.route.where) {
    case Route::Where::explorer:
      return explore_;
    case Route::Where::retrieval:
      return retrieval_;
    case Route::Where::speech:
      return speech_;
    default:
      return call.has("image") ? images_ : prepare_;
  }
}

/// Refuses requests that may not go on; true where it may.
bool Service::admit(const ExchangePtr& exchange, const Route& route) {
  const HttpRequest& request = exchange->request();
  const auto refuse = [&](int status, const std::string& message, const char* code = "") {
    exchange->annotate_error(message);
    exchange->respond(error_response(status, message, {}, code));
    return false;
  };
  if (route.access == Route::Access::key && !options_.access.key_accepted(request)) {
    return refuse(401, "the API key is missing or wrong; send it as Authorization: Bearer KEY",
                  "invalid_api_key");
  }
  if (request.method == "POST" && !is_json(request) && !(route.form && is_form(request))) {
    return refuse(415, route.form
                           ? "the body must be a form (multipart/form-data) or JSON"
                           : "the body must be JSON, sent with Content-Type: application/json");
  }
  if (route.where == Route::Where::io) {
    return true;
  }
  if (!models_.ready()) {
    return refuse(503, "the models are being loaded; try again soon", "loading");
  }
  if (metrics_.in_flight >= options_.queue) {
    metrics_.rejected += 1;
    return refuse(429, fmt::format("{} requests are waiting already; try again", options_.queue),
                  "queue_full");
  }
  return true;
}

void Service::answer_options(const ExchangePtr& exchange, const std::vector<const Route*>& found) {
  HttpResponse response;
  response.content_type.clear();
  std::string methods = "OPTIONS";
  for (const Route* route : found) {
    methods += ", " + route->method;
  }
  response.fields.emplace_back("Allow", methods);
  if (const std::string origin = options_.access.cross_origin(exchange->request());
      !origin.empty()) {
    response.fields.emplace_back("Access-Control-Allow-Origin", origin);
    response.fields.emplace_back("Access-Control-Allow-Methods", methods);
    response.fields.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
    response.fields.emplace_back("Vary", "Origin");
  }
  exchange->respond(std::move(response));
}

void Service::handle(const ExchangePtr& exchange) {
  const HttpRequest& request = exchange->request();
  const std::vector<const Route*> found = routes_at(request.path);
  exchange->annotate(
      [&](Exchange::Note& note) { note.route = found.empty() ? "other" : found.front()->path; });
  const auto refuse = [&](int status, const std::string& message) {
    exchange->annotate_error(message);
    exchange->respond(error_response(status, message));
  };
  if (!options_.access.host_allowed(request)) {
    return refuse(403,
                  "this server does not answer for the Host of the request; its operator can "
                  "allow that name");
  }
  if (request.method == "OPTIONS" && !found.empty() &&
      (found.front()->tag != "explorer" || options_.page)) {
    return answer_options(exchange, found);  // without a word that lets a foreign page in
  }
  if (!options_.access.origin_allowed(request)) {
    return refuse(403,
                  "pages of this Origin may not use the server; its operator can allow that "
                  "origin");
  }
  const bool explorer = !found.empty() && found.front()->tag == "explorer";
  if (found.empty() || (explorer && !options_.page)) {
    return refuse(404, fmt::format("there is no {}; /openapi.json lists what there is",
                                   request.path.size() <= 200 ? request.path : "such path"));
  }
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const Route* route = nullptr;
  for (const Route* each : found) {
    route = each->method == method ? each : route;
  }
  if (route == nullptr) {
    HttpResponse response = error_response(
        405, fmt::format("{} takes {}, not {}", request.path, found.front()->method, method));
    response.fields.emplace_back("Allow", found.front()->method);
    exchange->respond(std::move(response));
    return;
  }
  if (!admit(exchange, *route)) {
    return;
  }
  const auto call = std::make_shared<Call>(
      Call{.service = *this, .route = *route, .exchange = exchange, .client = request.remote});
  if (route->where == Route::Where::io) {
    answer_errors(call, [&] { route->handler(call); });
    return;
  }
  metrics_.in_flight += 1;
  call->in_flight = std::shared_ptr<void>(nullptr, [this](void*) { metrics_.in_flight -= 1; });
  std::stop_source stop;
  call->stop = stop.get_token();
  exchange->on_cancel([stop]() mutable { stop.request_stop(); });
  prepare_.post([this, call] { answer_errors(call, [&] { prepare(call); }); });
}

/// Parses and validates the body, and finds the model.
void Service::prepare(const CallPtr& call) {
  const StopScope scope(call->stop);
  throw_if_stopped();
  const Route& route = call->route;
  if (route.method == "POST") {
    try {
      const HttpRequest& request = call->exchange->request();
      call->body = is_form(request)
                       ? Json::parse(form_as_json(request, route.fields, call->files), "form")
                       : Json::parse(request.body, "body", kBodyLimits);
    } catch (const Error& error) {
      throw BadRequest(error.what());
    }
    if (!call->body->is_object()) {
      throw BadRequest("the body must be a JSON object");
    }
    validate_object(route.fields, *call->body);
  }
  if (call->has("user")) {
    call->client += "|" + call->body->string("user");
  }
  if (route.suits == nullptr) {
    route.where == Route::Where::worker ? dispatch(call)
                                        : lane(*call).post([this, call] { dispatch(call); });
    return;
  }
  call->model_name = call->has("model") ? call->body->string("model") : "";
  const bool named = !call->model_name.empty();
  if (!named) {
    call->model_name = models_.only_name(route.suits);
    if (call->model_name.empty()) {
      throw BadRequest("'model' is missing; /v1/models lists the models", "model",
                       "missing_required_parameter");
    }
  }
  models_.get(call->model_name, [this, call](const ModelRegistry::Result& result) {
    if (result.model) {
      call->model = result.model;
      lane(*call).post([this, call] { dispatch(call); });
    } else if (result.failure == ModelRegistry::Failure::missing) {
      call->exchange->respond(
          error_response(404, "there is no model of this name; /v1/models lists the models",
                         "model", "model_not_found"));
    } else {
      call->exchange->annotate_error(result.error);
      call->exchange->respond(not_loadable(result));
    }
  });
}

void Service::dispatch(const CallPtr& call) {
  answer_errors(call, [&] {
    const StopScope scope(call->stop);
    throw_if_stopped();
    if (call->model) {
      call->exchange->annotate([&](Exchange::Note& note) { note.model = call->model->name; });
      if (!call->route.suits(call->model->abilities)) {
        const std::vector<std::string> tasks = call->model->abilities.tasks();
        const std::string needs = fmt::format("{} needs {}; {} is ", call->route.path,
                                              call->route.needs, call->model->name);
        throw BadRequest(
            needs + (tasks.empty() ? "only shown by the explorer"
                                   : fmt::format("one for {}", fmt::join(tasks, ", "))),
            "model");
      }
    }
    call->route.handler(call);
  });
}

/// The names that dashboards of llama.cpp's server read.
void Service::write_llama_metrics(std::string& out) const {
  const auto counter = [&](const std::string& name, const std::string& help, auto value) {
    write_counter(out, "llamacpp:" + name, help, static_cast<double>(value));
  };
  const auto gauge = [&](const std::string& name, const std::string& help, auto value) {
    write_gauge(out, "llamacpp:" + name, help, static_cast<double>(value));
  };
  const auto rate = [](auto count, double per) {
    return per > 0.0 ? static_cast<double>(count) / per : 0.0;
  };
  const Metrics& m = metrics_;
  const int64_t prompt = m.prompt_tokens - m.cached_prompt_tokens;
  const double prompt_seconds = m.prompt_seconds.sum(), seconds = m.time_per_token.sum();
  counter("prompt_tokens_total", "Tokens of prompts that were read", prompt);
  counter("prompt_tokens_cached_total", "Tokens taken from a shared prefix",
          m.cached_prompt_tokens.load());
  counter("prompt_seconds_total", "Time from a slot to the first token", prompt_seconds);
  counter("tokens_predicted_total", "Tokens generated", m.generated_tokens.load());
  counter("tokens_predicted_seconds_total", "Time of the tokens behind the first ones", seconds);
  counter("n_decode_total", "Passes through a model",
          m.batch_sequences.count() + m.batch_texts.count());
  counter("n_tokens_max", "Tokens of the longest sequence", m.longest_sequence.load());
  for (const char* name : {"draft_tokens", "accepted_tokens", "drafts"}) {
    counter(std::string("spec_decode_num_") + name + "_total",
            "Speculation, which this server does not use", 0);
  }
  gauge("prompt_tokens_seconds", "Tokens of prompts per second", rate(prompt, prompt_seconds));
  gauge("predicted_tokens_seconds", "Tokens per second of one sequence",
        rate(m.time_per_token.count(), seconds));
  gauge("requests_processing", "Sequences that decode", m.active.load());
  gauge("requests_deferred", "Tasks that wait for a slot", m.waiting.load());
  gauge("n_busy_slots_per_decode", "Sequences of a decoding step, on average",
        rate(m.batch_sequences.sum(), static_cast<double>(m.batch_sequences.count())));
}

std::string Service::metrics_text() const {
  std::string out;
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    write_counter(out, name, help, static_cast<double>(value));
  };
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    write_gauge(out, name, help, static_cast<double>(value));
  };
  metrics_.write_requests(out);
  metrics_.request_seconds.write(out, "heed_request_seconds", "Time from request to last byte");
  metrics_.time_to_first_token.write(out, "heed_time_to_first_token_seconds",
                                     "Time from a request to its first token");
  metrics_.prompt_seconds.write(out, "heed_prompt_seconds", "Time from a slot to the first token");
  metrics_.time_per_token.write(out, "heed_time_per_token_seconds", "Time between two tokens");
  metrics_.batch_sequences.write(out, "heed_batch_sequences", "Sequences of a decoding step");
  metrics_.batch_texts.write(out, "heed_batch_texts", "Texts of an encoder's batch");
  counter("heed_prompt_tokens_total", "Tokens read", metrics_.prompt_tokens);
  counter("heed_cached_prompt_tokens_total", "Tokens taken from a shared prefix",
          metrics_.cached_prompt_tokens);
  counter("heed_generated_tokens_total", "Tokens generated", metrics_.generated_tokens);
  counter("heed_rejected_total", "Requests refused because the queue was full", metrics_.rejected);
  gauge("heed_tasks_waiting", "Tasks that wait for a slot", metrics_.waiting);
  gauge("heed_sequences_active", "Sequences that decode", metrics_.active);
  gauge("heed_requests_in_flight", "Requests under way", metrics_.in_flight);
  gauge("heed_models_loaded", "Models in memory", models_.loaded_count());
  write_llama_metrics(out);
  if (http_ != nullptr) {
    gauge("heed_connections_open", "Open connections", http_->open_connections);
    counter("heed_connections_total", "Connections accepted", http_->accepted);
    counter("heed_connections_evicted_total", "Idle connections closed to make room",
            http_->evicted);
    counter("heed_accept_failures_total", "Connections that could not be accepted",
            http_->accept_failures);
    counter("heed_protocol_errors_total", "Requests that were no valid HTTP",
            http_->protocol_errors);
    counter("heed_requests_cancelled_total", "Requests whose client went away", http_->cancelled);
  }
  return out;
}

}  // namespace heed::serve
