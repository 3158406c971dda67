#include "data/tokenize.h"

#include "base/parallel.h"

namespace heed {
namespace {
constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr size_t kBatchItems = 16384;
constexpr size_t kTileBytes = size_t{32} << 10;
}  // namespace

void BatchTokenizer::add(std::string text) {
  bytes_ += text.size();
  items_.push_back({std::move(text), -1});
  if (bytes_ >= kBatchBytes || items_.size() >= kBatchItems) {
    flush();
  }
}

void BatchTokenizer::add_token(int32_t id) { items_.push_back({"", id}); }

void BatchTokenizer::flush() {
  std::vector<size_t> tiles = {0};  // items of about the same number of bytes together
  size_t bytes = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    bytes += items_[i].text.size() + 16;
    if (bytes >= kTileBytes || i + 1 == items_.size()) {
      tiles.push_back(i + 1);
      bytes = 0;
    }
  }
  std::vector<std::vector<int32_t>> ids(items_.size());
  parallel_for(static_cast<int64_t>(tiles.size()) - 1, [&](int64_t tile) {
    for (size_t i = tiles[static_cast<size_t>(tile)]; i < tiles[static_cast<size_t>(tile) + 1];
         ++i) {
      if (form_ == Form::sequence) {
        ids[i] = tokenizer_.encode_ids(items_[i].text);
      } else {
        tokenizer_.append_ids(items_[i].text, ids[i]);
      }
      if (items_[i].token >= 0) {
        ids[i].push_back(items_[i].token);
      }
    }
  });
  for (const std::vector<int32_t>& sequence : ids) {
    shard_.append(sequence);
    if (form_ == Form::sequence) {
      shard_.end_sequence();
    }
  }
  items_.clear();
  bytes_ = 0;
}

}  // namespace heed
