#pragma once

#if __has_include("heed/text.h")
#include "heed/text.h"
#else
#include <filesystem>
#include <optional>
#include <string>
namespace heed {
struct ChatOptions {
  bool add_generation_prompt = false;
  std::string tools, variables;
};
struct ChatTemplate {
  static std::optional<ChatTemplate> find(const std::filesystem::path&) { return std::nullopt; }
  std::string render(const std::string&, const ChatOptions&) const { return {}; }
};
}  // namespace heed
#endif
