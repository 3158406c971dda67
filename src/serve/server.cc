#include <fmt/format.h>

#include <ctime>

#include "base/check.h"
#include "base/language.h"
#include "heed/serve.h"
#include "io/json_writer.h"
#include "serve/http_server.h"
#include "serve/service.h"

namespace heed {
namespace {

using serve::HttpLimits;
using serve::HttpServer;
using serve::ModelRegistry;
using serve::Service;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000.0));
}

/// "NAME=PATH" or "PATH".
ModelRegistry::Source parse_source(const std::string& text, const std::string& tokenizer) {
  const size_t equals = text.find('=');
  const bool named = equals != std::string::npos && !std::filesystem::exists(text);
  const std::filesystem::path path = named ? text.substr(equals + 1) : text;
  return {named ? text.substr(0, equals) : serve::served_name(path), path, tokenizer};
}

ModelRegistry::Options registry_options(const ServeOptions& options) {
  ModelRegistry::Options registry;
  if (!options.adapter.empty() && options.models.size() != 1) {
    fail(ErrorKind::usage, "adapter",
         "needs exactly one model; of several, give adapters' folders as models");
  }
  for (const std::string& model : options.models) {
    registry.models.push_back(parse_source(model, options.tokenizer));
    registry.models.back().adapter = options.adapter;
  }
  registry.folder = options.models_dir;
  for (const std::string& alias : options.aliases) {
    const size_t equals = alias.find('=');
    const bool named = equals != std::string::npos;
    if (!named && registry.models.size() != 1) {
      fail(ErrorKind::usage, "alias", "'{}' must be OTHER=NAME where several models are served",
           alias);
    }
    registry.aliases.emplace_back(alias.substr(0, equals),
                                  named ? alias.substr(equals + 1) : registry.models[0].name);
  }
  registry.context = options.context;
  registry.kv_type = options.kv_type;
  registry.idle = milliseconds(options.idle_unload);
  registry.log = options.log;
  return registry;
}

Service::Options service_options(const ServeOptions& options) {
  Service::Options service;
  service.access.api_keys = options.api_keys;
  service.access.allowed_hosts = options.allowed_hosts;
  service.access.allowed_origins = options.allowed_origins;
  service.queue = options.queue;
  service.engine.slots = options.slots;
  service.page = options.page;
  service.max_tokens = options.max_tokens;
  for (const std::string& index : options.indexes) {
    const ModelRegistry::Source source = parse_source(index, {});
    const bool named = index.find('=') != std::string::npos;
    service.indexes.push_back({named ? source.name : source.path.stem().string(), source.path});
  }
  for (const std::string& run : options.runs) {
    service.runs.emplace_back(run);
  }
  if (!options.models.empty()) {
    service.start_model = parse_source(options.models.front(), {}).name;
  }
  if (options.idle_unload > 0.0) {
    service.engine.keep_idle =
        std::min(service.engine.keep_idle, milliseconds(options.idle_unload));
  }
  return service;
}

HttpLimits http_limits(const ServeOptions& options) {
  HttpLimits limits;
  limits.connections = options.max_connections;
  limits.body_bytes = static_cast<uint64_t>(options.max_body_bytes);
  limits.total_body_bytes = std::max(limits.total_body_bytes, 2 * limits.body_bytes);
  limits.header_time = milliseconds(options.header_timeout);
  limits.body_time = milliseconds(options.body_timeout);
  limits.request_time = milliseconds(options.timeout);
  return limits;
}

void check_options(const ServeOptions& options) {
  const auto refuse = [](const char* option, const std::string& what) {
    fail(ErrorKind::usage, option, "{}", what);
  };
  if (options.models.empty() && options.models_dir.empty() && options.runs.empty() &&
      options.indexes.empty()) {
    refuse("serve", say("name at least one model, or a folder of models"));
  }
  if (options.port < 0 || options.port > 65535) {
    refuse("port", fmt::format(say("{} is out of range; 0 to 65535"), options.port));
  }
  for (const std::string& key : options.api_keys) {
    if (key.empty()) {
      refuse("api_key", say("the key is empty"));
    }
  }
  if (options.max_connections < 1 || options.queue < 1 || options.slots < 1) {
    refuse("serve", say("connections, queue and slots must be at least 1"));
  }
}

/// Refuses to be open to a network without a key.
void check_exposure(const ServeOptions& options, const std::string& address) {
  if (!serve::is_loopback(address) && options.api_keys.empty()) {
    fail(ErrorKind::usage, "host",
         "{} can be reached from other machines; set an API key, or listen on 127.0.0.1", address);
  }
}

std::string access_line(const HttpServer::Completion& done) {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &parts);
  JsonWriter json;
  json.begin_object().field("time", fmt::format("{}.{:03}Z", time, now.tv_nsec / 1'000'000));
  json.field("id", done.request.id).field("remote", done.request.remote);
  json.field("method", done.request.method).field("path", done.request.path);
  json.field("status", done.status).field("bytes", done.bytes);
  json.field("seconds", std::chrono::duration<double>(done.duration).count());
  if (!done.note.model.empty()) {
    json.field("model", done.note.model);
    json.field("prompt_tokens", done.note.prompt_tokens);
    json.field("completion_tokens", done.note.completion_tokens);
  }
  if (!done.note.error.empty()) {
    json.field("error", done.note.error);
  }
  return json.end_object().take();
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServeOptions given)
      : options(std::move(given)),
        service(service_options(options), registry_options(options)),
        http(
            http_limits(options), [this](const serve::ExchangePtr& it) { service.handle(it); },
            [this](const HttpServer::Completion& done) { on_complete(done); }) {
    service.set_http_counters(&http.counters());
  }
  void on_complete(const HttpServer::Completion& done) {
    service.metrics().count_request(done.note.route.empty() ? "other" : done.note.route,
                                    done.status);
    service.metrics().request_seconds.observe(std::chrono::duration<double>(done.duration).count());
    if (options.access_log) {
      options.access_log(access_line(done));
    }
  }

  ServeOptions options;
  Service service;
  HttpServer http;
};

Server::Server(ServeOptions options) {
  check_options(options);
  if (options.host == "localhost") {
    options.host = "127.0.0.1";
  }
  if (options.listen_socket < 0) {
    check_exposure(options, options.host);
  }
  impl_ = std::make_unique<Impl>(std::move(options));
}

Server::~Server() {
  if (impl_) {
    stop(0.0);
  }
}

void Server::start() {
  const ServeOptions& options = impl_->options;
  if (options.listen_socket >= 0) {
    impl_->http.adopt(options.listen_socket);
    check_exposure(options, impl_->http.host());
  } else {
    impl_->http.listen(options.host, options.port);
  }
  impl_->service.set_bound_address(impl_->http.host());
  impl_->http.start();
  impl_->service.models().load_all();
  impl_->service.indexes().open_all();
}

int Server::port() const { return impl_->http.port(); }

std::string Server::url() const {
  const std::string host = impl_->http.host();
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", v6 ? "[" + host + "]" : host, port());
}

void Server::reload() {
  impl_->service.models().reload();
  impl_->service.indexes().reload();
}

bool Server::stop(double seconds) {
  impl_->service.set_draining();
  impl_->http.drain();
  const bool finished = impl_->http.wait_until_drained(milliseconds(seconds));
  impl_->http.stop();
  return finished;
}

}  // namespace heed
