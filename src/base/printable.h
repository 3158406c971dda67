#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heed {

/// Escapes what must not reach a terminal, a log or a table cell as it is: control characters
/// (newlines and tabs included), bidirectional overrides, line separators and bytes that are not
/// UTF-8. Bytes become \xNN, code points \u{NNNN}. A backslash stays as it is, so the function is
/// idempotent and not reversible. The text is truncated after about `limit` bytes.
///
/// Every string that came from a file passes through here, or through quote(), before it is
/// printed.
std::string printable(std::string_view text, size_t limit = std::string_view::npos);

/// The same for running text, such as what a model generates: newlines and tabs stay.
std::string printable_lines(std::string_view text);

}  // namespace heed
