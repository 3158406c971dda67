#include "text/word_count.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/parallel.h"

namespace heed::text {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

uint64_t hash_of(std::string_view word) {
  uint64_t hash = word.size() * 0x9E3779B97F4A7C15u;
  size_t i = 0;
  for (; i + 8 <= word.size(); i += 8) {
    uint64_t part;
    std::memcpy(&part, word.data() + i, 8);
    hash = (hash ^ part) * 0xE7037ED1A0B428DBu;
    hash ^= hash >> 32;
  }
  uint64_t last = 0;
  std::memcpy(&last, word.data() + i, word.size() - i);
  hash = (hash ^ last) * 0xA0761D6478BD642Fu;
  return hash ^ hash >> 29;
}

/// Owns the words, as the chunks they came from may be gone.
class Totals {
 public:
  void add(const WordCounter& counter) {
    const std::lock_guard lock(mutex_);
    counter.for_each([&](std::string_view word, int64_t count) {
      const auto it = counts_.find(word);
      if (it != counts_.end()) {
        it->second += count;
      } else {
        counts_.emplace(std::string(word), count);
      }
    });
  }
  std::vector<WordCount> take() {
    std::vector<WordCount> words;
    words.reserve(counts_.size());
    for (auto& [word, count] : counts_) {
      words.push_back({word, count});
    }
    return words;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int64_t, std::less<>> counts_;
};

bool is_blank(char c) { return c == ' ' || (c >= 9 && c <= 13); }

}  // namespace

size_t WordCounter::slot_of(std::string_view word, uint64_t hash) const {
  const size_t mask = table_.size() - 1;
  size_t slot = hash & mask;
  while (table_[slot].count != 0 && (table_[slot].hash != hash || table_[slot].word != word)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void WordCounter::add(std::string_view word, int64_t count) {
  if (2 * used_ >= table_.size()) {
    grow();
  }
  const uint64_t hash = hash_of(word);
  Entry& entry = table_[slot_of(word, hash)];
  if (entry.count == 0) {
    entry = {word, hash, 0};
    ++used_;
  }
  entry.count += count;
}

void WordCounter::grow() {
  std::vector<Entry> old(std::max<size_t>(1024, 2 * table_.size()));
  old.swap(table_);
  for (const Entry& entry : old) {
    if (entry.count != 0) {
      table_[slot_of(entry.word, entry.hash)] = entry;
    }
  }
}

std::vector<std::string_view> chunks_of(std::string_view text) {
  std::vector<std::string_view> chunks;
  while (text.size() > kChunk) {
    size_t cut = text.size();
    for (size_t at = kChunk; at < text.size(); ++at) {
      const bool before = is_blank(text[at - 1]);
      const bool here = is_blank(text[at]);
      const bool line = text[at - 1] == '\n' && !here;
      const bool word = !before && text[at] == ' ' && at + 1 < text.size() &&
                        static_cast<unsigned char>(text[at + 1]) < 0x80 && !is_blank(text[at + 1]);
      if (line || word) {
        cut = at;
        break;
      }
    }
    chunks.push_back(text.substr(0, cut));
    text.remove_prefix(cut);
  }
  if (!text.empty()) {
    chunks.push_back(text);
  }
  return chunks;
}

std::vector<WordCount> count_words(
    std::span<const std::string_view> texts,
    const std::function<void(std::string_view, ChunkWords&)>& split) {
  std::vector<std::string_view> chunks;
  for (const std::string_view text : texts) {
    for (const std::string_view chunk : chunks_of(text)) {
      chunks.push_back(chunk);
    }
  }
  Totals totals;
  parallel_for(static_cast<int64_t>(chunks.size()), [&](int64_t tile) {
    ChunkWords words;
    split(chunks[static_cast<size_t>(tile)], words);
    totals.add(words.counter);
  });
  return totals.take();
}

}  // namespace heed::text
