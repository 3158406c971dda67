#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::text {

/// GPT-2's reversible writing of bytes as printable characters: 'a' is a, ' ' is Ġ.
const std::string& byte_to_text(unsigned char byte);
/// The byte a character stands for, or -1.
int text_to_byte(char32_t code);
/// Bytes of a token in that writing. Characters outside the alphabet keep their own bytes.
void append_token_bytes(std::string& out, std::string_view token);

}  // namespace heed::text
