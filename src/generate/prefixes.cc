#include "generate/prefixes.h"

#include <algorithm>

#include "heed/io.h"
#include "heed/ops.h"
#include "models/rope.h"

namespace heed {
namespace {

int64_t bytes_of(const SequenceCache& cache) {
  int64_t bytes = 0;
  for (const KvCache& layer : cache.self) {
    bytes += layer.bytes_for(layer.length());
  }
  return bytes;
}

}  // namespace

bool is_plain(const SequenceCache& cache) {
  return cache.state.empty() && !cache.self.empty() &&
         std::none_of(cache.cross.begin(), cache.cross.end(),
                      [](const KvCache& layer) { return layer.defined(); });
}

bool can_share(const SequenceCache& cache) {
  return is_plain(cache) &&
         std::all_of(cache.self.begin(), cache.self.end(), [&](const KvCache& layer) {
           return layer.defined() && layer.first() == 0 && layer.length() == cache.length;
         });
}

bool prefixes_last(const Model& model) {
  return !rotary_depends_on_length(model.config(), kWholeLayers);
}

int64_t common_prefix(const std::vector<int64_t>& a, const std::vector<int64_t>& b, int64_t limit) {
  const auto most = static_cast<std::ptrdiff_t>(
      std::min({static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()), limit}));
  return std::mismatch(a.begin(), a.begin() + most, b.begin()).first - a.begin();
}

void copy_prefix(const SequenceCache& from, int64_t length, SequenceCache& to) {
  const NoGrad no_grad;
  const bool slid = std::any_of(from.self.begin(), from.self.end(),
                                [](const KvCache& layer) { return layer.first() > 0; });
  if (slid) {
    to = from.copy();
    return;
  }
  for (size_t layer = 0; layer < from.self.size(); ++layer) {
    to.self[layer].append(slice(from.self[layer].keys(), 2, 0, length),
                          slice(from.self[layer].values(), 2, 0, length));
  }
  to.length = length;
}

void Scheduler::Prefixes::keep(std::vector<int64_t> tokens, SequenceCache cache) {
  const int64_t bytes = bytes_of(cache);
  if (bytes > limit || cache.length < kLeastPrefix) {
    return;
  }
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(cache.length)));
  // One that this sequence goes on from says nothing new.
  std::erase_if(kept, [&](const Kept& other) {
    const auto length = static_cast<int64_t>(other.tokens.size());
    const bool covered =
        length <= cache.length && common_prefix(other.tokens, tokens, length) == length;
    used -= covered ? other.bytes : 0;
    return covered;
  });
  used += bytes;
  kept.push_front({std::move(tokens), std::move(cache), bytes});
  while (used > limit) {
    used -= kept.back().bytes;
    kept.pop_back();
  }
}

void Scheduler::Prefixes::for_each(
    const std::function<void(const std::vector<int64_t>&, const SequenceCache&)>& look) const {
  for (const Kept& each : kept) {
    look(each.tokens, each.cache);
  }
}

}  // namespace heed
