#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/text.h"
#include "retrieval/documents.h"

namespace heed {

struct ChunkOptions {
  int64_t tokens = 200;  ///< most tokens per chunk, special tokens not counted
  int64_t overlap = 40;  ///< most tokens of the chunk before that a chunk repeats

  bool make_sense() const { return tokens >= 8 && overlap >= 0 && overlap < tokens; }
};

/// A part of a section that is embedded and found as one.
struct Chunk {
  std::string title;
  std::string text;
  std::string location;
  TextSpan span;      ///< bytes of the section's text
  uint64_t hash = 0;  ///< of title and text
};

/// Cuts a section into chunks of whole sentences, each of at most `tokens` tokens, that begin with
/// the last sentences of the chunk before (at most `overlap` tokens of them). A sentence that is
/// longer is cut between words, and a longer word between characters. A chunk has no more than
/// 256 KiB, whatever its tokens are.
std::vector<Chunk> chunk_section(const Section& section, const Tokenizer& tokenizer,
                                 const ChunkOptions& options);

}  // namespace heed
