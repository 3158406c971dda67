#include "serve/model_registry.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

#include "base/check.h"
#include "base/folder_entries.h"
#include "base/utf8.h"

namespace heed::serve {
namespace fs = std::filesystem;
namespace {

/// A name that is safe in a URL, a log line and a file listing.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 200 && name.front() != '.' && is_valid_utf8(name) &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) {
           return c < 0x20 || c == 0x7f || c == '/' || c == '\\' || c == '"';
         });
}

bool looks_like_model(const fs::path& path) {
  std::error_code ignored;
  return path.extension() == ".gguf" || fs::exists(path / "config.json", ignored) ||
         fs::exists(path / "model" / "config.json", ignored);
}

ModelRegistry::Entry entry_of(const std::string& name, const LoadedModel& model) {
  return {name,
          true,
          model.loaded_at,
          model.abilities.tasks(),
          model.model->model_type(),
          model.context_length(),
          model.model->parameter_count()};
}

}  // namespace

ModelRegistry::ModelRegistry(Options options) : options_(std::move(options)) {
  for (const Source& source : options_.models) {
    if (!is_plain_name(source.name)) {
      fail(ErrorKind::usage, "serve", "'{}' cannot be a model's name; give one as NAME=PATH",
           source.name);
    }
    Slot slot;
    slot.source = source;
    slot.entry.name = source.name;
    if (!slots_.emplace(source.name, std::move(slot)).second) {
      fail(ErrorKind::usage, "serve", "two models are called {}; name one of them as NAME=PATH",
           source.name);
    }
  }
  scan_folder();
  for (const auto& [other, name] : options_.aliases) {
    if (!slots_.contains(name)) {
      fail(ErrorKind::usage, "alias", "{}={}: there is no model {}", other, name, name);
    }
  }
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "heed-load");
    run();
  });
}

ModelRegistry::~ModelRegistry() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (auto& [name, slot] : slots_) {
    for (auto& done : slot.waiting) {
      done({.model = nullptr, .error = "the server is stopping"});
    }
  }
}

void ModelRegistry::scan_folder() {
  if (options_.folder.empty()) {
    return;
  }
  for (const fs::path& entry : folder_entries(options_.folder)) {
    const std::string name = served_name(entry);
    if (!is_plain_name(name) || !looks_like_model(entry) || slots_.contains(name)) {
      continue;
    }
    Slot slot;
    slot.source = {name, entry};
    slot.from_folder = true;
    slot.entry.name = name;
    slots_.emplace(name, std::move(slot));
  }
}

void ModelRegistry::load_all() {
  for (const Source& source : options_.models) {
    LoadedModelPtr model = open_served_model(source.name, source.path, source.tokenizer,
                                             options_.kv_type, source.adapter, options_.context);
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_.at(source.name);
    slot.model = std::move(model);
    slot.used = std::chrono::steady_clock::now();
    slot.entry = entry_of(source.name, *slot.model);
  }
  const std::lock_guard lock(mutex_);
  ready_ = true;
}

LoadedModelPtr ModelRegistry::loaded(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : found->second.model;
}

bool ModelRegistry::ready() const {
  const std::lock_guard lock(mutex_);
  return ready_;
}

ModelRegistry::Slot* ModelRegistry::find(const std::string& name) {
  if (const auto found = slots_.find(name); found != slots_.end()) {
    return &found->second;
  }
  Slot* any = nullptr;  // the model of "*", wherever it stands among the aliases
  for (const auto& [other, target] : options_.aliases) {
    if (other == name) {
      return &slots_.at(target);
    }
    if (other == "*" && any == nullptr && is_plain_name(name)) {
      any = &slots_.at(target);
    }
  }
  return any;
}

void ModelRegistry::get(const std::string& name, std::function<void(const Result&)> done) {
  Result result;
  {
    const std::lock_guard lock(mutex_);
    Slot* slot = find(name);
    if (slot == nullptr) {
      result.failure = Failure::missing;
    } else if (slot->model) {
      slot->used = std::chrono::steady_clock::now();
      result.model = slot->model;
    } else {
      if (slot->waiting.empty()) {  // first: nobody may wait for a load that is not asked for
        to_load_.emplace_back(slot->source.name, false);
      }
      slot->waiting.push_back(std::move(done));
      changed_.notify_all();
      return;
    }
  }
  done(result);
}

std::string ModelRegistry::only_name(const std::function<bool(const Abilities&)>& suits) const {
  const std::lock_guard lock(mutex_);
  if (slots_.size() == 1) {
    return slots_.begin()->first;
  }
  std::string name;
  for (const auto& [key, slot] : slots_) {
    if (slot.model && suits(slot.model->abilities)) {
      if (!name.empty()) {
        return {};
      }
      name = key;
    }
  }
  return name;
}

std::vector<ModelRegistry::Entry> ModelRegistry::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  for (const auto& [name, slot] : slots_) {
    all.push_back(slot.entry);
    all.back().loaded = slot.model != nullptr;
    for (const auto& [other, target] : options_.aliases) {
      if (target == name && other != "*") {
        all.back().aliases.push_back(other);
      }
    }
  }
  return all;
}

int64_t ModelRegistry::loaded_count() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(slots_.begin(), slots_.end(),
                       [](const auto& item) { return item.second.model != nullptr; });
}

void ModelRegistry::reload() {
  {
    const std::lock_guard lock(mutex_);
    reload_ = true;
  }
  changed_.notify_all();
}

void ModelRegistry::load(const std::string& name, bool replace) {
  Source source;
  {
    const std::lock_guard lock(mutex_);
    const Slot& slot = slots_.at(name);
    if (slot.model && !replace) {
      return;
    }
    source = slot.source;
  }
  Result result;
  Entry entry;
  try {
    result.model = open_served_model(source.name, source.path, source.tokenizer, options_.kv_type,
                                     source.adapter, options_.context);
    entry = entry_of(name, *result.model);
  } catch (const Error& error) {
    result = {.model = nullptr,
              .error = error.what(),
              .failure = error.kind() == ErrorKind::runtime ? Failure::server : Failure::bad_model};
  } catch (const std::bad_alloc&) {
    result = {.model = nullptr, .error = "out of memory", .failure = Failure::memory};
  } catch (const std::exception& error) {
    result = {.model = nullptr, .error = error.what()};
  }
  std::deque<std::function<void(const Result&)>> waiting;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_.at(name);
    if (result.model) {
      slot.model = result.model;
      slot.used = std::chrono::steady_clock::now();
      slot.entry = std::move(entry);
    }
    waiting.swap(slot.waiting);
  }
  for (const auto& done : waiting) {
    try {
      done(result);
    } catch (const std::exception&) {
      // No memory for its answer: the exchange is dropped, and its client told so.
    }
  }
  say(result.model ? fmt::format("loaded {}", name)
                   : fmt::format("cannot load {}: {}", name, result.error));
}

void ModelRegistry::unload_idle() {
  std::vector<LoadedModelPtr> dropped;  // freed outside the lock
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  for (auto& [name, slot] : slots_) {
    if (!slot.model) {
      continue;
    }
    if (slot.model.use_count() > 1) {
      slot.used = now;  // a request has it
    } else if (now - slot.used >= options_.idle) {
      dropped.push_back(std::move(slot.model));
      slot.model = nullptr;
      say(fmt::format("unloaded {} after idleness", name));
    }
  }
}

/// What may be out of memory is tried again or given up with a line in the log; the thread goes on.
void ModelRegistry::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    try {
      work(lock);
    } catch (const std::exception& error) {
      if (!lock.owns_lock()) {
        lock.lock();
      }
      say(error.what());
    }
  }
}

/// The next thing there is to do, or a wait for one. Called with `lock` held, and returns so.
void ModelRegistry::work(std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::milliseconds kLook{1000};
  if (reload_) {
    reload_ = false;
    for (const auto& [name, slot] : slots_) {
      if (slot.model) {
        to_load_.emplace_back(name, true);
      }
    }
    scan_folder();
  }
  if (!to_load_.empty()) {
    const auto [name, replace] = to_load_.front();
    to_load_.pop_front();
    lock.unlock();
    load(name, replace);
    lock.lock();
  } else if (options_.idle.count() == 0) {
    changed_.wait(lock);
  } else if (changed_.wait_for(lock, std::min(kLook, options_.idle / 2 + kLook / 100)) ==
             std::cv_status::timeout) {
    lock.unlock();
    unload_idle();
    lock.lock();
  }
}

void ModelRegistry::say(const std::string& text) const {
  if (options_.log) {
    options_.log(text);
  }
}

HttpResponse not_loadable(const ModelRegistry::Result& result) {
  switch (result.failure) {
    case ModelRegistry::Failure::memory:
      return error_response(503, "there is not enough memory to load the model", "model");
    case ModelRegistry::Failure::bad_model:
      return error_response(400, "the model cannot be loaded; the server's log says why", "model",
                            "model_not_loadable");
    default:
      return error_response(500, "the model could not be loaded; the server's log says why",
                            "model");
  }
}

}  // namespace heed::serve
