#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/shard.h"
#include "heed/text.h"

namespace heed {

/// Takes texts one by one, tokenises many at once on all threads, and appends them to a shard in
/// their order. The result does not depend on the number of threads.
class BatchTokenizer {
 public:
  /// What a text becomes: a sequence with the tokens that belong around it, or a stretch of running
  /// text.
  enum class Form { sequence, running };

  BatchTokenizer(const Tokenizer& tokenizer, ShardWriter& shard, Form form)
      : tokenizer_(tokenizer), shard_(shard), form_(form) {}

  void add(std::string text);
  /// Running text: `id` after what was added so far.
  void add_token(TokenId id);
  /// To be called at the end.
  void flush();

 private:
  struct Item {
    std::string text;
    TokenId token = -1;  // comes after the text
  };

  const Tokenizer& tokenizer_;
  ShardWriter& shard_;
  Form form_;
  std::vector<Item> items_;
  size_t bytes_ = 0;
};

}  // namespace heed
