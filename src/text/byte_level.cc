#include "text/byte_level.h"

#include <array>

#include "text/unicode.h"

namespace heed::text {
namespace {

constexpr char32_t kLast = 0x100 + 68;  ///< code points in use: below this

struct Alphabet {
  std::array<std::string, 256> text;
  std::array<int, kLast> byte;
  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t code = printable ? static_cast<char32_t>(b) : next++;
      append_code(text[static_cast<size_t>(b)], code);
      byte[code] = b;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet the;
  return the;
}

}  // namespace

const std::string& byte_to_text(unsigned char byte) { return alphabet().text[byte]; }

int text_to_byte(char32_t code) { return code < kLast ? alphabet().byte[code] : -1; }

void append_token_bytes(std::string& out, std::string_view token) {
  const size_t start = out.size();
  const char* end = token.data() + token.size();
  for (const char* p = token.data(); p < end;) {
    const CodePoint one = decode_one(p, end);
    const int byte = one.valid ? text_to_byte(one.code) : -1;
    if (byte < 0) {  // not of this alphabet: an added token in plain writing
      out.resize(start);
      out.append(token);
      return;
    }
    out += static_cast<char>(byte);
    p += one.length;
  }
}

}  // namespace heed::text
