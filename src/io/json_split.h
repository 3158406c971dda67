#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"

namespace heed {

/// A tokenizer.json whose vocabulary and merges are lists instead of parts of the tree: a tree of
/// their hundred thousand values costs more time than all the rest of loading.
struct SplitJson {
  Json rest;                                                ///< with {} and [] in their places
  std::vector<std::pair<std::string, int32_t>> vocabulary;  ///< model.vocab: token and id
  std::vector<std::pair<std::string, std::string>> merges;  ///< model.merges, "a b" or ["a", "b"]
};

/// Nothing where a part is missing or not of this kind: what Json::parse() gives then tells more.
std::optional<SplitJson> split_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace heed
