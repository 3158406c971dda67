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
  void push(const std::string& client, T item) {
    auto& items = clients_[client];
    if (items.empty()) {
      turns_.push_back(client);
    }
    items.push_back(std::move(item));
    ++size_;
  }

  /// The next item of the client whose turn it is.
  std::optional<T> pop() {
    if (turns_.empty()) {
      return std::nullopt;
    }
    const std::string client = std::move(turns_.front());
    turns_.pop_front();
    const auto found = clients_.find(client);
    T item = std::move(found->second.front());
    found->second.pop_front();
    --size_;
    if (found->second.empty()) {
      clients_.erase(found);
    } else {
      turns_.push_back(client);
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
