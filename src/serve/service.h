#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/serve.h"
#include "serve/engine.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/model_registry.h"
#include "serve/recent_requests.h"
#include "serve/routes.h"
#include "serve/search_indexes.h"
#include "serve/security.h"
#include "serve/work_queue.h"

namespace heed::serve {

/// What stands between the HTTP layer and the engine: access rules, routing, validation, and a few
/// threads that parse and tokenise, so that neither I/O nor generation waits for it.
class Service {
 public:
  struct Options {
    AccessRules access;
    int64_t queue = 256;  ///< requests that may be under way; beyond: 429
    int threads = 2;      ///< that parse and tokenise
    int64_t max_tokens =
        0;  ///< most tokens of an answer, whatever the client asks for; 0: no limit
    Engine::Options engine;
    std::vector<SearchIndexes::Source> indexes;
    std::vector<std::filesystem::path> runs;  ///< training runs that the page may follow
    std::string start_model;                  ///< that the page shows first
    bool page = true;                         ///< the explorer page and what it asks
  };
  Service(Options options, ModelRegistry::Options models);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Takes a request from the HTTP layer, on its thread.
  void handle(const ExchangePtr& exchange);
  void set_http_counters(const HttpCounters* counters) { http_ = counters; }
  void set_bound_address(const std::string& address) { options_.access.bound_address = address; }
  void set_draining() { draining_ = true; }

  ModelRegistry& models() { return models_; }
  Engine& engine() { return engine_; }
  Explorer& explorer() { return explorer_; }
  Metrics& metrics() { return metrics_; }
  RecentRequests& recent() { return recent_; }
  SearchIndexes& indexes() { return indexes_; }
  int64_t max_tokens() const { return options_.max_tokens; }
  int64_t slots() const { return options_.engine.slots; }
  bool ready() const { return models_.ready() && !draining_; }
  std::string metrics_text() const;

 private:
  bool admit(const ExchangePtr& exchange, const Route& route);
  void prepare(const CallPtr& call);
  void dispatch(const CallPtr& call);
  WorkQueue& lane(const Call& call);
  void write_llama_metrics(std::string& out) const;
  void answer_options(const ExchangePtr& exchange, const std::vector<const Route*>& routes);

  Options options_;
  Metrics metrics_;
  const HttpCounters* http_ = nullptr;
  std::atomic<bool> draining_{false};
  RecentRequests recent_;
  SearchIndexes indexes_;
  // In this order: what comes later uses what comes before, and ends first.
  WorkQueue prepare_, images_, explore_, retrieval_, speech_;
  ModelRegistry models_;
  Engine engine_;
  Explorer explorer_;
};

/// A served model as the explorer needs it; waits until it is loaded.
ExplorerModel explorer_model(ModelRegistry& models, const std::string& name);

/// Runs `body` and answers the call's client with whatever it throws: by `respond`, or by the
/// exchange where it is empty.
void answer_errors(const CallPtr& call, const std::function<void()>& body,
                   const std::function<void(HttpResponse)>& respond = {});

}  // namespace heed::serve
