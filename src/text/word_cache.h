#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "heed/text.h"

namespace heed::text {

/// Remembers the ids of short words. Two ways, one cache line an entry, no allocation after the
/// first word. One a thread.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 31;
  static constexpr size_t kMostIds = 7;

  /// The word's bytes with its length in the last one.
  struct Key {
    uint64_t part[4];
    bool operator==(const Key& other) const {
      return ((part[0] ^ other.part[0]) | (part[1] ^ other.part[1]) | (part[2] ^ other.part[2]) |
              (part[3] ^ other.part[3])) == 0;
    }
  };

  /// `readable`: end of the memory that may be read, at or after the word's end.
  static Key key_of(std::string_view word, const char* readable) {
    static constexpr auto kMask = [] {
      struct {
        unsigned char bytes[64];
      } mask{};
      for (int i = 0; i < 32; ++i) {
        mask.bytes[i] = 0xFF;
      }
      return mask;
    }();
    Key key;
    if (readable - word.data() >= 32) {
      uint64_t mask[4];
      std::memcpy(&key, word.data(), 32);
      std::memcpy(mask, kMask.bytes + 32 - word.size(), 32);
      for (int i = 0; i < 4; ++i) {
        key.part[i] &= mask[i];
      }
    } else {
      std::memset(&key, 0, 32);
      std::memcpy(&key, word.data(), word.size());
    }
    key.part[3] |= static_cast<uint64_t>(word.size()) << 56;
    return key;
  }

  /// The word's ids, or an empty span.
  std::span<const int32_t> find(const Key& key) {
    Entry* set = set_of(key);
    for (int way = 0; way < 2; ++way) {
      if (set[way].key == key) {
        return {set[way].ids, set[way].count};
      }
    }
    return {};
  }

  /// `ids`: 1 … kMostIds of them.
  void insert(const Key& key, std::span<const TokenId> ids) {
    Entry* set = set_of(key);
    set[1] = set[0];
    set[0].key = key;
    set[0].count = static_cast<uint32_t>(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      set[0].ids[i] = static_cast<int32_t>(ids[i]);
    }
  }

 private:
  struct Entry {
    Key key;
    int32_t ids[kMostIds];
    uint32_t count;
  };
  static_assert(sizeof(Entry) == 64);
  static constexpr size_t kSets = 1 << 15;
  static constexpr size_t kBytes = kSets * 2 * sizeof(Entry);
  struct Free {
    void operator()(Entry* entries) const { std::free(entries); }
  };

  static uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  Entry* set_of(const Key& key) {
    if (entries_ == nullptr) {
      allocate();
    }
    const uint64_t hash =
        mix(key.part[0] ^ 0xA0761D6478BD642Fu, key.part[1] ^ 0xE7037ED1A0B428DBu) ^
        mix(key.part[2] ^ 0x8EBC6AF09C88C6E3u, key.part[3] ^ 0x589965CC75374CC3u);
    return entries_.get() + 2 * (hash & (kSets - 1));
  }
  void allocate() {
    auto* memory = static_cast<Entry*>(std::aligned_alloc(128, kBytes));
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    std::memset(static_cast<void*>(memory), 0, kBytes);
    entries_.reset(memory);
  }

  std::unique_ptr<Entry[], Free> entries_;
};

}  // namespace heed::text
