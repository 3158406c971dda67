#include "text/merge_agenda.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace heed::text {
namespace {
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr size_t kKeep = 1 << 16;  ///< a bucket larger than this gives its memory back
}  // namespace

void MergeAgenda::add(const std::vector<Symbol>& symbols, uint32_t place, const PairTable& pairs) {
  if (following_[place] == kNone) {
    return;
  }
  const auto* found = pairs.find(symbols[place].id, symbols[following_[place]].id);
  if (found == nullptr) {
    return;
  }
  if (found->rank >= buckets_.size()) {
    buckets_.resize(found->rank + 1);
  }
  Bucket& bucket = buckets_[found->rank];
  if (bucket.places.empty() || place >= bucket.places.back()) {
    bucket.places.push_back(place);
  } else {
    bucket.late.push_back(place);
    std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
  }
  if (!bucket.waiting) {
    bucket.waiting = true;
    heap_.push_back(found->rank);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
}

bool MergeAgenda::take(uint32_t& place, uint32_t& rank) {
  while (!heap_.empty()) {
    rank = heap_.front();
    Bucket& bucket = buckets_[rank];
    const bool in_order = bucket.next < bucket.places.size();
    if (!bucket.late.empty() && (!in_order || bucket.late.front() < bucket.places[bucket.next])) {
      std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
      place = bucket.late.back();
      bucket.late.pop_back();
      return true;
    }
    if (in_order) {
      place = bucket.places[bucket.next++];
      return true;
    }
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    if (bucket.places.capacity() > kKeep) {
      bucket = Bucket{};
    } else {
      bucket.places.clear();
      bucket.next = 0;
      bucket.waiting = false;
    }
  }
  return false;
}

void MergeAgenda::merge(std::vector<Symbol>& symbols, const PairTable& pairs) {
  const auto count = static_cast<uint32_t>(symbols.size());
  previous_.resize(count);
  following_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    previous_[i] = i == 0 ? kNone : i - 1;
    following_[i] = i + 1 == count ? kNone : i + 1;
  }
  for (uint32_t i = 0; i < count; ++i) {
    add(symbols, i, pairs);
  }
  constexpr int32_t kGone = -2;
  for (uint32_t place = 0, rank = 0; take(place, rank);) {
    const uint32_t right = following_[place];
    if (symbols[place].id == kGone || right == kNone) {
      continue;
    }
    const auto* found = pairs.find(symbols[place].id, symbols[right].id);
    if (found == nullptr || found->rank != rank) {
      continue;
    }
    symbols[place] = {found->result, symbols[place].length + symbols[right].length};
    symbols[right].id = kGone;
    following_[place] = following_[right];
    if (following_[place] != kNone) {
      previous_[following_[place]] = place;
    }
    if (previous_[place] != kNone) {
      add(symbols, previous_[place], pairs);
    }
    add(symbols, place, pairs);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id == kGone; });
}

}  // namespace heed::text
