#include "text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "text/unicode.h"

namespace heed::text {
namespace {

/// Longer words are learned from in parts, so that one merge never walks a whole book.
constexpr size_t kLongestWord = 256;

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Pair {
  int64_t count = 0;
  std::vector<uint32_t> words;  ///< where it was seen; may be out of date
};

struct Candidate {
  int64_t count;
  uint64_t key;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : key > other.key;
  }
};

class Trainer {
 public:
  explicit Trainer(const BpeTraining& options) : options_(options), tokens_(options.tokens) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      ids_.emplace(tokens_[i], static_cast<int32_t>(i));
    }
    alphabet_end_ = static_cast<int32_t>(tokens_.size());
  }

  BpeTrained run(const std::vector<WordCount>& words) {
    for (const WordCount& word : words) {
      add_word(word);
    }
    count_pairs();
    while (static_cast<int64_t>(tokens_.size()) < options_.vocab_size && merge_next()) {
    }
    return {std::move(tokens_), std::move(merges_)};
  }

 private:
  struct Word {
    uint64_t begin;
    uint32_t length;
    int64_t count;
  };

  int32_t id_for(const std::string& token) {
    const auto [it, fresh] = ids_.emplace(token, static_cast<int32_t>(tokens_.size()));
    if (fresh) {
      tokens_.push_back(token);
    }
    return it->second;
  }

  void add_word(const WordCount& word) {
    uint64_t begin = symbols_.size();
    const auto close = [&] {
      if (symbols_.size() > begin) {
        words_.push_back({begin, static_cast<uint32_t>(symbols_.size() - begin), word.count});
        begin = symbols_.size();
      }
    };
    const std::string_view text = word.word;
    for (size_t i = 0; i < text.size();) {
      const size_t length = decode_one(text.data() + i, text.data() + text.size()).length;
      std::string character(text.substr(i, length));
      const auto known = ids_.find(character);
      const bool in_alphabet = known != ids_.end() && known->second < alphabet_end_ &&
                               known->second >= static_cast<int32_t>(options_.alphabet_begin);
      if (in_alphabet) {
        symbols_.push_back(i == 0 || options_.prefix.empty() ? known->second
                                                             : id_for(options_.prefix + character));
      }
      i += length;
      if (symbols_.size() - begin >= kLongestWord) {
        close();
      }
    }
    close();
  }

  Pair& pair_at(uint64_t key) { return pairs_[key]; }

  void note(uint64_t key, uint32_t word, int64_t count) {
    Pair& pair = pair_at(key);
    pair.count += count;
    if (pair.words.empty() || pair.words.back() != word) {
      pair.words.push_back(word);
    }
  }

  void count_pairs() {
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const int32_t* symbols = symbols_.data() + words_[w].begin;
      for (uint32_t i = 0; i + 1 < words_[w].length; ++i) {
        note(key_of(symbols[i], symbols[i + 1]), w, words_[w].count);
      }
    }
    for (const auto& [key, pair] : pairs_) {
      queue_.push({pair.count, key});
    }
  }

  std::string joined(int32_t left, int32_t right) const {
    const std::string& tail = tokens_[static_cast<size_t>(right)];
    const bool cut = !options_.prefix.empty() && tail.starts_with(options_.prefix);
    return tokens_[static_cast<size_t>(left)] + (cut ? tail.substr(options_.prefix.size()) : tail);
  }

  /// Learns one merge; false where no pair is frequent enough.
  bool merge_next() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      Pair& pair = pair_at(top.key);
      if (pair.count != top.count) {
        if (pair.count > 0 && pair.count < top.count) {
          queue_.push({pair.count, top.key});
        }
        continue;
      }
      if (top.count < std::max<int64_t>(1, options_.min_frequency)) {
        return false;
      }
      const auto left = static_cast<int32_t>(top.key >> 32);
      const auto right = static_cast<int32_t>(top.key & 0xFFFFFFFFu);
      const int32_t fresh = id_for(joined(left, right));
      merges_.emplace_back(left, right);
      const std::vector<uint32_t> words = std::move(pair.words);
      pair.count = 0;
      pair.words.clear();
      changed_.clear();
      for (const uint32_t word : words) {
        merge_in(word, left, right, fresh);
      }
      std::sort(changed_.begin(), changed_.end());
      changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
      for (const uint64_t key : changed_) {
        if (key != top.key && pairs_[key].count > 0) {
          queue_.push({pairs_[key].count, key});
        }
      }
      return true;
    }
    return false;
  }

  void merge_in(uint32_t index, int32_t left, int32_t right, int32_t fresh) {
    Word& word = words_[index];
    int32_t* symbols = symbols_.data() + word.begin;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < word.length; ++i) {
      if (i + 1 >= word.length || symbols[i] != left || symbols[i + 1] != right) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        lose(key_of(symbols[kept - 1], left), word.count);
        gain(key_of(symbols[kept - 1], fresh), index, word.count);
      }
      if (i + 2 < word.length) {
        lose(key_of(right, symbols[i + 2]), word.count);
        gain(key_of(fresh, symbols[i + 2]), index, word.count);
      }
      symbols[kept++] = fresh;
      ++i;
    }
    word.length = kept;
  }

  void lose(uint64_t key, int64_t count) { pair_at(key).count -= count; }
  void gain(uint64_t key, uint32_t word, int64_t count) {
    note(key, word, count);
    changed_.push_back(key);
  }

  const BpeTraining& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  int32_t alphabet_end_ = 0;
  std::vector<std::pair<int32_t, int32_t>> merges_;
  std::vector<int32_t> symbols_;
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<uint64_t> changed_;
};

}  // namespace

BpeTrained train_bpe(const std::vector<WordCount>& words, const BpeTraining& options) {
  return Trainer(options).run(words);
}

}  // namespace heed::text
