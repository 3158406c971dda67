#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/http_message.h"
#include "serve/loaded_model.h"

namespace heed::serve {

/// The models that can be asked for, by name. Loads on a thread of its own, so that neither I/O nor
/// generation waits; gives memory back after idleness.
class ModelRegistry {
 public:
  struct Source {
    std::string name;
    std::filesystem::path path;
    std::filesystem::path tokenizer = {};
    std::filesystem::path adapter = {};
  };
  struct Options {
    std::vector<Source> models;         ///< loaded by load_all()
    std::filesystem::path folder = {};  ///< its entries are loaded on first use
    std::vector<std::pair<std::string, std::string>> aliases = {};  ///< other name, name; "*": any
    int64_t context = 0;                          ///< most tokens of a sequence; 0: the model's
    DType kv_type = DType::f32;                   ///< of the caches of models that generate
    std::chrono::milliseconds idle{0};            ///< unload after so long without use; 0: never
    std::function<void(const std::string&)> log;  ///< told what is loaded and unloaded
  };
  /// What /v1/models shows of a model.
  struct Entry {
    std::string name;
    bool loaded = false;
    std::time_t created = 0;
    std::vector<std::string> tasks;  ///< known once it has been loaded
    std::string model_type;
    int64_t context = 0, parameters = 0;
    std::vector<std::string> aliases = {};  ///< without "*"
  };
  enum class Failure {
    missing,    ///< there is no such name
    bad_model,  ///< its files are no model that heed can use
    memory,     ///< there is not enough memory
    server,     ///< anything else, such as a file that cannot be read
  };
  /// A model, or why it could not be had. `error` may name files and is for logs only.
  struct Result {
    LoadedModelPtr model;
    std::string error = {};
    Failure failure = Failure::server;
  };

  explicit ModelRegistry(Options options);
  ~ModelRegistry();
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  /// Loads the models given at the start, in order; throws what the first bad one throws.
  void load_all();
  bool ready() const;
  /// Calls `done` with the model: at once where it is loaded, else from the loader's thread.
  void get(const std::string& name, std::function<void(const Result&)> done);
  /// The name that a request without one means: the only one that `suits`. Empty where there is
  /// none or more than one.
  std::string only_name(const std::function<bool(const Abilities&)>& suits) const;
  std::vector<Entry> entries() const;
  /// Reads the folder again and replaces every loaded model by a fresh copy from its files. A model
  /// that cannot be read any more stays as it is. Requests that run keep the model they have.
  void reload();
  int64_t loaded_count() const;
  /// A model that is in memory; null where it is not, or has another name.
  LoadedModelPtr loaded(const std::string& name) const;

 private:
  struct Slot {
    Source source;
    bool from_folder = false;
    LoadedModelPtr model;
    Entry entry;
    std::chrono::steady_clock::time_point used;
    std::deque<std::function<void(const Result&)>> waiting;
  };
  void run();
  void work(std::unique_lock<std::mutex>& lock);
  void load(const std::string& name, bool replace);
  void unload_idle();
  void scan_folder();
  Slot* find(const std::string& name);
  void say(const std::string& text) const;

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Slot> slots_;
  std::deque<std::pair<std::string, bool>> to_load_;
  bool ready_ = false, stopping_ = false, reload_ = false;
  std::thread thread_;
};

/// For a model that is there and cannot be used. Its error names files of the server, which only
/// the server's logs show.
HttpResponse not_loadable(const ModelRegistry::Result& result);

}  // namespace heed::serve
