#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed::text {

/// A word of the training text and how often it is there.
struct WordCount {
  std::string word;
  int64_t count;
};

/// Counts words in hashed order; small and quick, for one thread.
class WordCounter {
 public:
  /// `word` must live until the counter is done with.
  void add(std::string_view word, int64_t count = 1);
  template <class Fn>
  void for_each(Fn&& fn) const {
    for (const Entry& entry : table_) {
      if (entry.count > 0) {
        fn(entry.word, entry.count);
      }
    }
  }

 private:
  struct Entry {
    std::string_view word;
    uint64_t hash = 0;
    int64_t count = 0;
  };
  size_t slot_of(std::string_view word, uint64_t hash) const;
  void grow();
  std::vector<Entry> table_;
  size_t used_ = 0;
};

/// The words of one chunk, and a place for text that they are cut from if it is not the chunk's
/// own.
struct ChunkWords {
  WordCounter counter;
  std::string text;
};

/// Cuts a text into chunks where every pre-tokenizer cuts too: after a line end, or between words.
std::vector<std::string_view> chunks_of(std::string_view text);

/// Calls split(chunk, words) for all chunks of all texts, on all threads, and adds the counts up.
/// The result is sorted by the words' bytes.
std::vector<WordCount> count_words(
    std::span<const std::string_view> texts,
    const std::function<void(std::string_view chunk, ChunkWords& words)>& split);

}  // namespace heed::text
