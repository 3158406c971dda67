#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/json_split.h"
#include "text/token_model.h"

namespace heed::text {

/// Two neighbours that become one. The lowest rank goes first, of equals the leftmost.
struct Merge {
  int32_t left, right;
  int32_t result;
  uint32_t rank;
};

struct BpeOptions {
  bool raw_bytes = false;
  bool byte_fallback = false;
  bool fuse_unk = false;
  bool ignore_merges = false;  ///< a piece that is a token as a whole stays one
  std::optional<int32_t> unk;
  std::string prefix;  ///< of every character but the first, as ## in WordPiece
  std::string suffix;  ///< of the last character
};

std::unique_ptr<Model> make_bpe(Vocabulary vocabulary, const std::vector<Merge>& merges,
                                BpeOptions options);
std::unique_ptr<Model> make_bpe(const Json& json, bool raw_bytes);
/// Takes the lists; null where one is in error.
std::unique_ptr<Model> make_bpe(SplitJson& split, bool raw_bytes);

/// Merges by score, as SentencePiece's BPE does: every way to put a token together from two others,
/// the highest score first.
std::vector<Merge> merges_by_score(const Vocabulary& vocabulary, const std::vector<float>& scores,
                                   const std::vector<bool>& usable);

}  // namespace heed::text
