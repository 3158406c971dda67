#include "draw/text_width.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "heed/picture.h"

namespace heed {
namespace {

constexpr utf8proc_int32_t kJoiner = 0x200D;          // holds emoji families together
constexpr utf8proc_int32_t kNonJoiner = 0x200C;       // Persian spelling
constexpr utf8proc_int32_t kEmojiVariation = 0xFE0F;  // asks for the two-column picture

void append(std::string& out, utf8proc_int32_t code) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(code, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

utf8proc_int32_t decode(std::string_view sequence) {
  utf8proc_int32_t code = 0xFFFD;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(sequence.data()),
                   static_cast<utf8proc_ssize_t>(sequence.size()), &code);
  return code;
}

bool is_hidden(utf8proc_int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP ||
         (category == UTF8PROC_CATEGORY_CF && code != kJoiner && code != kNonJoiner);
}

std::string spaces(int count) { return std::string(static_cast<size_t>(std::max(count, 0)), ' '); }

}  // namespace

std::string visible_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    if (length == 0) {
      append(out, 0xFFFD);
      text.remove_prefix(1);
      continue;
    }
    const utf8proc_int32_t code = decode(text.substr(0, length));
    if (code == '\n') {
      out += "↵";
    } else if (code < 0x20) {
      append(out, 0x2400 + code);
    } else if (code == 0x7F) {
      append(out, 0x2421);
    } else if (code >= 0x80 && code < 0xA0) {
      append(out, 0xFFFD);
    } else if (!is_hidden(code)) {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::vector<Cluster> clusters_of(std::string_view text) {
  std::vector<Cluster> clusters;
  utf8proc_int32_t state = 0;
  utf8proc_int32_t previous = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(utf8_sequence(text.substr(at)), 1);
    const utf8proc_int32_t code = decode(text.substr(at, length));
    const int width = code == kEmojiVariation ? 2 : utf8proc_charwidth(code);
    if (clusters.empty() || utf8proc_grapheme_break_stateful(previous, code, &state)) {
      clusters.push_back({text.substr(at, length), width});
    } else {
      Cluster& last = clusters.back();
      last.text = text.substr(static_cast<size_t>(last.text.data() - text.data()),
                              last.text.size() + length);
      last.width = std::max(last.width, width);
    }
    previous = code;
    at += length;
  }
  return clusters;
}

int display_width(std::string_view text) {
  const std::string visible = visible_text(text);
  int width = 0;
  for (const Cluster& cluster : clusters_of(visible)) {
    width += cluster.width;
  }
  return width;
}

std::string shorten(std::string_view text, int width) {
  const std::string visible = visible_text(text);
  std::string kept;
  int used = 0;
  std::string fitting;  // what is kept if "…" must follow
  for (const Cluster& cluster : clusters_of(visible)) {
    if (used + cluster.width > width) {
      return width < 1 ? std::string() : fitting + "…";
    }
    used += cluster.width;
    kept += cluster.text;
    if (used <= width - 1) {
      fitting = kept;
    }
  }
  return kept;
}

std::string fit(std::string_view text, int width, Align align) {
  const std::string kept = shorten(text, width);
  const int room = width - display_width(kept);
  const int before = align == Align::left ? 0 : align == Align::right ? room : room / 2;
  return spaces(before) + kept + spaces(room - before);
}

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace heed
