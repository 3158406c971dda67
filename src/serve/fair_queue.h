#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace heed::serve {

/// A queue that serves its clients in turn: one that asks for much waits behind itself, not in
/// front of the others. Not thread-safe.
template <class T>
class FairQueue {
 public:
  /// Throws std::bad_alloc with the queue as it was.
  void push(const std::string& client, T item) {
    auto& items = clients_[client];
    items.push_back(std::move(item));
    if (items.size() == 1) {
      try {
        turns_.push_back(client);
      } catch (...) {
        clients_.erase(client);
        throw;
      }
    }
    ++size_;
  }

  /// The next item of the client whose turn it is. Throws std::bad_alloc with the queue as it was.
  std::optional<T> pop() {
    if (turns_.empty()) {
      return std::nullopt;
    }
    const auto found = clients_.find(turns_.front());
    if (found->second.size() > 1) {
      turns_.push_back(turns_.front());
    }
    turns_.pop_front();
    T item = std::move(found->second.front());
    found->second.pop_front();
    --size_;
    if (found->second.empty()) {
      clients_.erase(found);
    }
    return item;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::map<std::string, std::deque<T>> clients_;
  std::deque<std::string> turns_;
  size_t size_ = 0;
};

}  // namespace heed::serve
