#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/text.h"
#include "text/jinja_ast.h"

namespace heed {

/// The templates of a model, parsed.
struct ChatTemplateImpl {
  struct Named {
    std::string name;  ///< "default", "tool_use", …
    std::string source;
    text::jinja::Block block;
  };
  std::string file;
  std::vector<Named> templates;
  /// bos_token, eos_token, …: variables of every template.
  std::vector<std::pair<std::string, std::string>> special_tokens;

  /// The one transformers would take: "tool_use" with tools where there is one, else "default".
  const Named& choose(bool with_tools) const;
};

namespace text {

/// What the files of a model say, before it is parsed.
struct ChatTemplateSource {
  std::string file;
  std::vector<std::pair<std::string, std::string>> templates;  ///< name and Jinja text
  std::vector<std::pair<std::string, std::string>> special_tokens;
};
/// No templates where there are none.
ChatTemplateSource read_chat_template(const std::filesystem::path& path);

}  // namespace text
}  // namespace heed
