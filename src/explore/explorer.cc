#include "base/check.h"
#include "base/http_error_type.h"
#include "explore/explorer_state.h"
#include "explore/parts.h"
#include "heed/pipelines.h"
#include "heed/serve.h"
#include "heed/version.h"

namespace heed {

using explore::Failure;
using explore::Fields;
using explore::Trace;

std::string Explorer::State::list_models() {
  JsonWriter json;
  json.begin_object().field("version", std::string(heed::version())).field("protocol", 1);
  json.key("models").begin_array();
  for (const std::string& id : ids) {
    try {
      const ExplorerModel found = model(id);
      auto& entry = described[id];
      if (entry.first != found.model.get()) {
        entry = {found.model.get(), explore::describe_model(found)};
      }
      json.raw(entry.second);
    } catch (const std::exception&) {  // one that cannot be opened is listed all the same
      json.raw(explore::describe_unopened(id));
    }
  }
  json.end_array().key("runs").begin_array();
  for (const auto& run : options.runs) {
    json.raw(explore::describe_run(run, ids));
  }
  json.end_array().key("start").begin_object();
  if (!options.start_text.empty()) {
    json.field("text", options.start_text);
  }
  if (ids.empty() && !options.runs.empty()) {
    json.field("run", options.runs.front().filename().string());
  } else if (!ids.empty()) {
    const auto wanted = std::find(ids.begin(), ids.end(), options.start_model);
    json.field("model", wanted == ids.end() ? ids.front() : *wanted);
  }
  return json.end_object().end_object().take();
}

std::string Explorer::State::tokenize(const Json& body) {
  const Fields f(body, {"model", "text", "pair", "special_tokens"});
  const ExplorerModel found = model(f.text("model"));
  if (!found.tokenizer) {
    throw Failure(409, "unsupported", "this model has no tokenizer", "model");
  }
  const std::string text = f.text("text");
  const bool special = f.flag_or("special_tokens", true);
  const Encoding encoding = f.has("pair")
                                ? found.tokenizer.encode_pair(text, f.text("pair"), special)
                                : found.tokenizer.encode(text, special);
  JsonWriter json;
  json.begin_object().key("tokens");
  write_tokens(json, explore::shown_tokens(found.tokenizer, encoding, text));
  return json.end_object().take();
}

std::string Explorer::State::answer_trace(std::string_view method, std::string_view rest,
                                          const Json* body) {
  const std::string id(rest.substr(0, rest.find('/')));
  const std::string_view route =
      rest.find('/') == std::string_view::npos ? "" : rest.substr(rest.find('/') + 1);
  if (route.empty() && method == "DELETE") {
    std::erase_if(traces, [&](const Stored& each) { return each.id == id; });
    return "{}";
  }
  const std::shared_ptr<Trace> found = trace(id);
  if (route.empty()) {
    return write_trace(id, *found, 10);
  }
  using Answerer = std::string (*)(Trace&, const Json&);
  static const std::map<std::string_view, Answerer> answers{
      {"predict", explore::answer_predict},
      {"lens", explore::answer_lens},
      {"attribution", explore::answer_attribution},
      {"heads", explore::answer_heads},
      {"tile", explore::answer_tile},
      {"rows", explore::answer_rows},
      {"head", explore::answer_head},
      {"steps", explore::answer_steps},
      {"why", explore::answer_why},
      {"activation", explore::answer_activation}};
  if (body == nullptr) {
    throw Failure(400, "invalid", "a body is missing");
  }
  if (route == "experiment") {
    return experiment(found, *body);
  }
  if (route == "patching") {
    return patching(found, *body);
  }
  const auto answerer = answers.find(route);
  if (answerer == answers.end()) {
    throw Failure(404, "not_found", fmt::format("a trace has no {}", route));
  }
  return answerer->second(*found, *body);
}

std::string Explorer::State::answer_model(std::string_view rest, const Json* body) {
  const size_t slash = rest.rfind('/');
  if (slash == std::string_view::npos) {
    throw Failure(404, "not_found", "there is no such path");
  }
  const ExplorerModel found = model(std::string(rest.substr(0, slash)));
  const std::string_view what = rest.substr(slash + 1);
  if (what == "parameters") {
    return explore::answer_parameters(found);
  }
  if (what == "parameter" && body != nullptr) {
    return explore::answer_parameter(found, *body);
  }
  throw Failure(404, "not_found", fmt::format("a model has no {}", what));
}

std::string Explorer::State::answer_runs(std::string_view path, std::string_view query,
                                         const Json* body) {
  if (path.empty()) {
    JsonWriter json;
    json.begin_object().key("runs").begin_array();
    for (const auto& run : options.runs) {
      json.raw(explore::describe_run(run, ids));
    }
    return json.end_array().end_object().take();
  }
  const std::string_view name = path.substr(0, path.find('/'));
  for (const auto& run : options.runs) {
    if (run.filename().string() == name || run.parent_path().filename().string() == name) {
      return explore::answer_run(run, ids, path.substr(std::min(path.size(), name.size() + 1)),
                                 query, body);
    }
  }
  throw Failure(404, "not_found", fmt::format("there is no run '{}'", name));
}

std::string Explorer::State::dispatch(std::string_view method, std::string_view target,
                                      const Json* body) {
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query =
      target.find('?') == std::string_view::npos ? "" : target.substr(target.find('?') + 1);
  constexpr std::string_view kBase = "/heed/v1/";
  if (!path.starts_with(kBase)) {
    throw Failure(404, "not_found", "there is no such path");
  }
  const std::string_view rest = path.substr(kBase.size());
  const auto under = [&](std::string_view name) {
    return rest.starts_with(name) && rest.size() > name.size() && rest[name.size()] == '/';
  };
  if (rest == "models") {
    return list_models();
  }
  if (rest == "tokenize" && body != nullptr) {
    return tokenize(*body);
  }
  if (rest == "traces" && body != nullptr) {
    return create(*body);
  }
  if (under("traces")) {
    return answer_trace(method, rest.substr(7), body);
  }
  if (under("models")) {
    return answer_model(rest.substr(7), body);
  }
  if (rest == "runs" || under("runs")) {
    return answer_runs(rest == "runs" ? "" : rest.substr(5), query, body);
  }
  throw Failure(404, "not_found", "there is no such path");
}

namespace {

Explorer::Answer failure_answer(int status, const std::string& message, const std::string& code,
                                const std::string& param = {}) {
  JsonWriter json;
  json.begin_object().key("error").begin_object().field("message", message);
  json.field("type", http_error_type(status)).key("param");
  param.empty() ? json.null() : json.value(param);
  return {status, json.field("code", code).end_object().end_object().take()};
}

}  // namespace

Explorer::Answer Explorer::State::answered(const std::function<std::string()>& body) {
  try {
    return {200, body()};
  } catch (const Failure& failure) {
    return failure_answer(failure.status(), failure.what(), failure.code(), failure.param());
  } catch (const Error& error) {
    const bool ours = error.kind() == ErrorKind::runtime;
    return failure_answer(ours ? 500 : 400, error.what(), ours ? "internal" : "invalid");
  } catch (const std::bad_alloc&) {
    return failure_answer(503, "out of memory; try a shorter input", "busy");
  } catch (const std::exception& error) {
    return failure_answer(500, error.what(), "internal");
  }
}

Json Explorer::State::parse_body(std::string_view text) {
  Json body = Json::parse(text, "body", {.depth = 32, .values = 1'000'000, .token = 64U << 20});
  if (!body.is_object()) {
    throw Failure(400, "invalid", "the body must be a JSON object");
  }
  return body;
}

Explorer::Explorer(std::vector<std::string> ids, Find find)
    : Explorer(std::move(ids), std::move(find), Options{}) {}

Explorer::Explorer(std::vector<std::string> ids, Find find, Options options)
    : state_(std::make_unique<State>()) {
  state_->ids = std::move(ids);
  state_->find = std::move(find);
  state_->options = std::move(options);
}

Explorer::~Explorer() = default;

void Explorer::set_models(std::vector<std::string> ids) {
  const std::lock_guard lock(state_->mutex);
  state_->ids = std::move(ids);
}

Explorer::Answer Explorer::answer(std::string_view method, std::string_view path,
                                  std::string_view body) {
  return State::answered([&] {
    std::optional<Json> parsed;
    if (method == "POST") {
      parsed = State::parse_body(body);
    }
    const std::lock_guard lock(state_->mutex);
    return state_->dispatch(method, path, parsed ? &*parsed : nullptr);
  });
}

ExplorerModel open_explorer_model(const std::filesystem::path& path, const std::string& id) {
  LoadedModel loaded = open_model(path);
  ExplorerModel model;
  model.path = loaded.path;
  model.model = std::move(loaded.model);
  model.tokenizer = std::move(loaded.tokenizer);
  const bool run = loaded.path.filename() == "model";
  model.id = !id.empty() ? id : (run ? loaded.path.parent_path() : loaded.path).filename().string();
  return model;
}

ScoreExplanation explain_score(const ExplorerModel& model, const std::string& text,
                               const std::string& kind, int64_t layer, int64_t head, int64_t query,
                               int64_t key) {
  explore::TraceRequest request;
  request.text = text;
  try {
    Trace trace(model, request, {});
    return explore::explain(trace, kind, layer, head, query, key);
  } catch (const Failure& failure) {
    fail(ErrorKind::usage, "explain_score", "{}", failure.what());
  }
}

}  // namespace heed
