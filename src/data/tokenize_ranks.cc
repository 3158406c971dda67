#include "data/tokenize_ranks.h"

#include <optional>

#include "base/check.h"

namespace heed {
namespace {
std::optional<TokenizeShare> g_share;
}

TokenizeTogether::TokenizeTogether(TokenizeShare share) {
  if (share.ranks > 1) {
    g_share = std::move(share);
  }
}

TokenizeTogether::~TokenizeTogether() { g_share.reset(); }

const TokenizeShare* tokenize_share() { return g_share ? &*g_share : nullptr; }

bool all_have(bool made, uint64_t key, std::string_view data) {
  if (!g_share) {
    return made;
  }
  const std::vector<std::string> notes = g_share->gather(fmt::format("{:016x}{:d}", key, made));
  bool all = true;
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    if (notes[rank].compare(0, 16, notes[0], 0, 16) != 0) {
      fail(
          ErrorKind::usage, "ranks",
          "rank {} has another data set in {}, or another tokenizer, than rank 0; start every rank "
          "with the same command, data and program",
          rank, data);
    }
    all = all && notes[rank].back() == '1';
  }
  return all;
}

}  // namespace heed
