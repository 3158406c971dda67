#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::text::jinja {

struct Token {
  enum class Kind {
    text,         ///< outside of tags
    block_begin,  ///< {%
    block_end,
    print_begin,  ///< {{
    print_end,
    name,
    string,
    integer,
    real,
    op,  ///< an operator or bracket
    end,
  };
  Kind kind;
  std::string text;  ///< of a string without quotes and escapes
  int line;
};

/// Cuts a template into tokens, with blocks trimmed as transformers does it: the newline after a
/// block and the blanks before it on its line go away. Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace heed::text::jinja
