#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"

namespace heed {

/// A tokenizer.json whose vocabulary and merges are flat lists instead of JSON values: building a
/// tree of their hundred thousand values would take longer than the rest of loading.
struct SplitJson {
  Json rest;                                                ///< with {} and [] in place of the two
  std::vector<std::pair<std::string, int32_t>> vocabulary;  ///< model.vocab: token and id
  std::vector<std::pair<std::string, std::string>> merges;  ///< model.merges, "a b" or ["a", "b"]
};

/// Returns nullopt if a part is missing or has another form; Json::parse() gives a better error
/// then.
std::optional<SplitJson> split_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace heed
