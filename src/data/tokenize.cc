#include "data/tokenize.h"

#include <cstring>

#include "base/parallel.h"
#include "data/tokenize_ranks.h"

namespace heed {
namespace {
constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr size_t kBatchItems = 16384;
constexpr size_t kTileBytes = size_t{32} << 10;

/// Every rank has encoded the items of its tiles; afterwards all have all. An item travels as the
/// number of its ids and the ids.
void exchange(const TokenizeShare& share, const std::vector<size_t>& tiles,
              std::vector<std::vector<TokenId>>& ids) {
  const auto each_item = [&](size_t rank, auto&& fn) {
    for (size_t tile = rank; tile + 1 < tiles.size(); tile += static_cast<size_t>(share.ranks)) {
      for (size_t i = tiles[tile]; i < tiles[tile + 1]; ++i) {
        fn(ids[i]);
      }
    }
  };
  std::string mine;
  const auto put = [&](const void* data, size_t bytes) {
    mine.append(static_cast<const char*>(data), bytes);
  };
  each_item(static_cast<size_t>(share.rank), [&](const std::vector<TokenId>& item) {
    const auto count = static_cast<uint32_t>(item.size());
    put(&count, sizeof count);
    put(item.data(), item.size() * sizeof(TokenId));
  });
  const std::vector<std::string> all = share.gather(mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const char* from = all[rank].data();
    each_item(rank, [&](std::vector<TokenId>& item) {
      uint32_t count = 0;
      std::memcpy(&count, from, sizeof count);
      item.resize(count);
      std::memcpy(item.data(), from + sizeof count, count * sizeof(TokenId));
      from += sizeof count + count * sizeof(TokenId);
    });
  }
}

}  // namespace

void BatchTokenizer::add(std::string text) {
  bytes_ += text.size();
  items_.push_back({std::move(text), -1});
  if (bytes_ >= kBatchBytes || items_.size() >= kBatchItems) {
    flush();
  }
}

void BatchTokenizer::add_token(TokenId id) { items_.push_back({"", id}); }

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
  std::vector<std::vector<TokenId>> ids(items_.size());
  const TokenizeShare* share = tokenize_share();
  const int64_t ranks = share != nullptr ? share->ranks : 1;
  parallel_for(static_cast<int64_t>(tiles.size()) - 1, [&](int64_t tile) {
    if (share != nullptr && tile % ranks != share->rank) {
      return;
    }
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
  if (share != nullptr) {
    exchange(*share, tiles, ids);
  }
  for (const std::vector<TokenId>& sequence : ids) {
    shard_.append(sequence);
    if (form_ == Form::sequence) {
      shard_.end_sequence();
    }
  }
  items_.clear();
  bytes_ = 0;
}

}  // namespace heed
