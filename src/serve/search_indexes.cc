#include "serve/search_indexes.h"

#include <fmt/format.h>

#include <optional>

#include "heed/retrieval.h"
#include "serve/field.h"

namespace heed::serve {

struct SearchIndexes::Slot {
  std::filesystem::path path;
  std::mutex mutex;
  std::optional<SearchIndex> index;

  SearchIndex& open() {
    if (!index) {
      index.emplace(SearchIndex::open(path));
    }
    return *index;
  }
};

SearchIndexes::SearchIndexes(std::vector<Source> sources) {
  for (Source& source : sources) {
    auto slot = std::make_unique<Slot>();
    slot->path = std::move(source.path);
    slots_[source.name] = std::move(slot);
  }
}

SearchIndexes::~SearchIndexes() = default;

SearchIndexes::Held SearchIndexes::get(const std::string& name) {
  if (slots_.empty()) {
    throw BadRequest(
        "this server has no index; name one when it is started (`--index NAME=PATH` of `heed "
        "serve`)",
        "index", "no_index", 404);
  }
  if (name.empty() && slots_.size() > 1) {
    throw BadRequest("'index' is missing, and several are served", "index",
                     "missing_required_parameter");
  }
  const auto found = name.empty() ? slots_.begin() : slots_.find(name);
  if (found == slots_.end()) {
    throw BadRequest("there is no index of this name", "index", "index_not_found", 404);
  }
  std::unique_lock lock(found->second->mutex);
  SearchIndex& index = found->second->open();
  return {std::move(lock), &index};
}

void SearchIndexes::open_all() {
  for (auto& [name, slot] : slots_) {
    const std::lock_guard lock(slot->mutex);
    slot->open();
  }
}

void SearchIndexes::reload() {
  for (auto& [name, slot] : slots_) {
    const std::lock_guard lock(slot->mutex);
    slot->index.reset();
  }
}

}  // namespace heed::serve
