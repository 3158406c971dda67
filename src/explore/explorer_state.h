#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "explore/answers.h"
#include "heed/serve.h"

namespace heed {

struct Explorer::State {
  std::vector<std::string> ids;
  Find find;
  Options options;
  std::mutex mutex;  ///< held by every answer that computes
  struct Stored {
    std::string id;
    std::shared_ptr<explore::Trace> trace;
  };
  std::deque<Stored> traces;  ///< the last used last
  int64_t count = 0;
  std::map<std::string, std::pair<const Model*, std::string>> described;

  std::optional<ExplorerModel> checkpoint;  ///< of a run, the last that was asked for

  ExplorerModel model(const std::string& id) {
    if (checkpoint && checkpoint->id == id) {
      return *checkpoint;
    }
    try {
      if (id.find('@') != std::string::npos) {
        if (auto found = explore::open_checkpoint(options.runs, id)) {
          checkpoint = std::move(found);
          return *checkpoint;
        }
      }
      ExplorerModel found = find(id);
      found.id = id;
      return found;
    } catch (const Error& error) {
      throw explore::Failure(404, "not_found", error.what(), "model");
    }
  }

  std::shared_ptr<explore::Trace> trace(const std::string& id, const char* param = "") {
    const auto found = std::find_if(traces.begin(), traces.end(),
                                    [&](const Stored& each) { return each.id == id; });
    if (found != traces.end()) {
      std::rotate(found, found + 1, traces.end());
      return traces.back().trace;
    }
    throw explore::Failure(404, "trace_gone", fmt::format("trace {} is gone", id), param);
  }

  std::string keep(std::shared_ptr<explore::Trace> trace) {
    constexpr int64_t kMostBytes = int64_t{2} << 30;
    traces.push_back({fmt::format("t{}", ++count), std::move(trace)});
    int64_t bytes = 0;
    for (const Stored& each : traces) {
      bytes += each.trace->bytes();
    }
    while (traces.size() > options.traces || (bytes > kMostBytes && traces.size() > 1)) {
      bytes -= traces.front().trace->bytes();
      traces.pop_front();
    }
    return traces.back().id;
  }

  std::vector<explore::Intervention> interventions(const Json& list);
  std::string list_models();
  std::string write_trace(const std::string& id, explore::Trace& trace, int64_t top_k);
  std::string create(const Json& body);
  std::string experiment(const std::shared_ptr<explore::Trace>& trace, const Json& body);
  std::string patching(const std::shared_ptr<explore::Trace>& trace, const Json& body);
  std::string tokenize(const Json& body);
  std::string answer_trace(std::string_view method, std::string_view rest, const Json* body);
  std::string answer_model(std::string_view rest, const Json* body);
  std::string answer_runs(std::string_view path, std::string_view query, const Json* body);
  /// Runs `body` and turns what it throws into an answer.
  static Answer answered(const std::function<std::string()>& body);
  static Json parse_body(std::string_view text);
  std::string dispatch(std::string_view method, std::string_view target, const Json* body);
};

}  // namespace heed
