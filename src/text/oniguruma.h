#pragma once

#include <string>
#include <string_view>

namespace heed::text {

/// A pattern of tokenizer.json, which is written for Oniguruma, as PCRE2 must read it to match the
/// same. The two differ in what \s, \w, \b, \h and [:names:] mean, in what \p{Han} holds, and in
/// classes within classes. `file` names the source in errors.
std::string from_oniguruma(std::string_view pattern, std::string_view file);

}  // namespace heed::text
