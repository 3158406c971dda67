#include <algorithm>

#include "text/jinja_runtime.h"
#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

/// Whether `chars` holds this character; null: whether it is a blank.
bool among(std::string_view character, char32_t code, const std::string* chars) {
  return chars == nullptr ? is_blank(code) : chars->find(character) != std::string::npos;
}

void append_upper(std::string& out, char32_t code) {
  if (code == 0xDF) {
    out += "SS";
  } else {
    append_code(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
  }
}

}  // namespace

bool is_blank(char32_t code) { return is_space(code) || (code >= 0x1C && code <= 0x1F); }

std::string_view stripped(std::string_view text, const std::string* chars, bool left, bool right) {
  while (left && !text.empty()) {
    const CodePoint c = decode_one(text.data(), text.data() + text.size());
    if (!among(text.substr(0, c.length), c.code, chars)) {
      break;
    }
    text.remove_prefix(c.length);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 && (text[begin] & 0xC0) == 0x80) {
      --begin;
    }
    CodePoint c = decode_one(text.data() + begin, text.data() + text.size());
    if (c.length != text.size() - begin) {
      begin = text.size() - 1;
      c = {0xFFFD, 1, false};
    }
    if (!among(text.substr(begin), c.code, chars)) {
      break;
    }
    text = text.substr(0, begin);
  }
  return text;
}

std::string upper(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
    append_upper(out, c.code);
    i += c.length;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
    append_lower(out, c.code);
    i += c.length;
  }
  return out;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) {
    return "";
  }
  const size_t n = decode_one(text.data(), text.data() + text.size()).length;
  return upper(text.substr(0, n)) + lower(text.substr(n));
}

std::string html_escaped(Budget& budget, std::string_view text) {
  TextBuilder out(budget);
  for (const char c : text) {
    switch (c) {
      case '&':
        out.append("&amp;");
        break;
      case '<':
        out.append("&lt;");
        break;
      case '>':
        out.append("&gt;");
        break;
      case '\'':
        out.append("&#39;");
        break;
      case '"':
        out.append("&#34;");
        break;
      default:
        out.append(1, c);
    }
  }
  return out.take();
}

Value replace(Budget& budget, std::string_view text, std::string_view from, std::string_view to,
              int64_t count) {
  TextBuilder out(budget);
  size_t at = 0;
  if (from.empty()) {  // between all characters, and at both ends
    for (; count != 0; --count) {
      budget.step();
      out.append(to);
      if (at >= text.size()) {
        break;
      }
      const size_t n = decode_one(text.data() + at, text.data() + text.size()).length;
      out.append(text.substr(at, n));
      at += n;
    }
    out.append(text.substr(std::min(at, text.size())));
    return make_string(budget, out.take());
  }
  for (; count != 0; --count) {
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) {
      break;
    }
    budget.step();
    out.append(text.substr(at, found - at));
    out.append(to);
    at = found + from.size();
  }
  out.append(text.substr(at));
  return make_string(budget, out.take());
}

}  // namespace heed::text::jinja
