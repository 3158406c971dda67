#include "generate/token_trie.h"

#include <algorithm>
#include <numeric>

namespace heed {
namespace {

constexpr size_t kLongest = 1024;  // bytes of a token; longer ones are runs of one character

}  // namespace

TokenTrie::TokenTrie(std::vector<std::string> token_bytes) : bytes_(std::move(token_bytes)) {
  std::vector<int32_t> order(bytes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int32_t id) {
    const size_t size = bytes_[static_cast<size_t>(id)].size();
    return size == 0 || size > kLongest;
  });
  const auto text = [&](int32_t id) -> const std::string& {
    return bytes_[static_cast<size_t>(id)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return text(a) < text(b); });
  std::vector<uint32_t> path;  // nodes from the root to the last token's
  const std::string* before = nullptr;
  for (const int32_t id : order) {
    const std::string& now = text(id);
    size_t common = 0;
    if (before != nullptr) {
      const auto most = static_cast<std::ptrdiff_t>(std::min(before->size(), now.size()));
      common = static_cast<size_t>(
          std::mismatch(now.begin(), now.begin() + most, before->begin()).first - now.begin());
    }
    for (; path.size() > common; path.pop_back()) {
      nodes_[path.back()].skip = static_cast<uint32_t>(nodes_.size());
    }
    for (size_t depth = common; depth < now.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, 0, static_cast<uint16_t>(depth + 1), 0, static_cast<uint8_t>(now[depth])});
    }
    Node& node = nodes_[path.back()];
    if (node.count == 0) {
      node.begin = static_cast<uint32_t>(ids_.size());
    }
    ++node.count;
    ids_.push_back(id);
    longest_ = std::max(longest_, static_cast<uint16_t>(now.size()));
    before = &now;
  }
  for (const uint32_t node : path) {
    nodes_[node].skip = static_cast<uint32_t>(nodes_.size());
  }
}

}  // namespace heed
