#include "serve/recent_requests.h"

namespace heed::serve {
namespace {

constexpr size_t kMostRequests = 64;

}  // namespace

RecentRequests::Entry* RecentRequests::entry(const std::string& id) {
  // The newest are asked for most.
  for (auto at = entries_.rbegin(); at != entries_.rend(); ++at) {
    if (at->id == id) {
      return &*at;
    }
  }
  return nullptr;
}

void RecentRequests::begin(const std::string& id, const std::string& model, size_t choices) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kMostRequests) {
    entries_.pop_front();
  }
  entries_.push_back({id, model, std::vector<Choice>(choices)});
}

void RecentRequests::set_prompt(const std::string& id, size_t choice,
                                const std::vector<int64_t>& prompt,
                                std::vector<int64_t> encoder_ids) {
  const std::lock_guard lock(mutex_);
  if (Entry* found = entry(id)) {
    found->choices[choice] = {std::move(encoder_ids), prompt};
  }
}

void RecentRequests::add_token(const std::string& id, size_t choice, int64_t token) {
  const std::lock_guard lock(mutex_);
  if (Entry* found = entry(id)) {
    found->choices[choice].ids.push_back(token);
  }
}

std::optional<RecentRequests::Found> RecentRequests::find(const std::string& id,
                                                          size_t choice) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& each : entries_) {
    if (each.id == id && choice < each.choices.size()) {
      return Found{each.model, each.choices[choice]};
    }
  }
  return std::nullopt;
}

}  // namespace heed::serve
