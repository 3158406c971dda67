#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "retrieval/documents.h"

namespace heed {
namespace {

constexpr std::array<std::string_view, 30> kBlocks = {
    "p",          "div",     "br",      "li",      "ul",    "ol",     "tr",    "table",
    "section",    "article", "header",  "footer",  "nav",   "main",   "aside", "pre",
    "blockquote", "dl",      "dt",      "dd",      "hr",    "figure", "form",  "body",
    "html",       "option",  "address", "caption", "thead", "tbody"};
constexpr std::array<std::string_view, 8> kSkipped = {"script", "style",  "template", "noscript",
                                                      "svg",    "iframe", "textarea", "head"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kEntities = {{
    {"amp", "&"},    {"lt", "<"},    {"gt", ">"},    {"quot", "\""},  {"apos", "'"},
    {"nbsp", " "},   {"copy", "©"},  {"reg", "®"},   {"hellip", "…"}, {"mdash", "—"},
    {"ndash", "–"},  {"lsquo", "‘"}, {"rsquo", "’"}, {"ldquo", "“"},  {"rdquo", "”"},
    {"middot", "·"}, {"bull", "•"},  {"times", "×"}, {"laquo", "«"},  {"raquo", "»"},
    {"deg", "°"},    {"euro", "€"},
}};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void append_utf8(std::string& out, uint32_t c) {
  if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
    c = 0xfffd;
  }
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 63));
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

/// Appends what the entity at the beginning of `text` ("&amp;…") stands for; the bytes it takes.
size_t append_entity(std::string& out, std::string_view text) {
  constexpr size_t kLongest = 12;
  const size_t end = text.substr(0, kLongest).find(';');
  if (end == std::string_view::npos) {
    out += '&';
    return 1;
  }
  const std::string_view name = text.substr(1, end - 1);
  if (name.starts_with('#')) {
    const bool hex = name.starts_with("#x") || name.starts_with("#X");
    const std::string_view digits = name.substr(hex ? 2 : 1);
    uint32_t code = 0;
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
    if (error == std::errc() && stop == digits.data() + digits.size()) {
      append_utf8(out, code);
      return end + 1;
    }
  }
  for (const auto& [known, stands_for] : kEntities) {
    if (known == name) {
      out += stands_for;
      return end + 1;
    }
  }
  out += '&';
  return 1;
}

/// Collects the visible text of a page.
class Page {
 public:
  explicit Page(const std::function<void(Section)>& visit) : visit_(visit) {}

  void read(std::string_view html) {
    while (!html.empty()) {
      if (html.front() != '<') {
        const size_t end = std::min(html.find('<'), html.size());
        add_text(html.substr(0, end));
        html.remove_prefix(end);
      } else if (html.starts_with("<!--")) {
        const size_t end = html.find("-->", 4);
        html.remove_prefix(end == std::string_view::npos ? html.size() : end + 3);
      } else {
        html.remove_prefix(read_tag(html));
      }
    }
    finish();
  }

 private:
  static std::string tag_name(std::string_view tag) {
    std::string name;
    for (const char c : tag) {
      const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
      if (!((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9'))) {
        break;
      }
      name += lower;
    }
    return name;
  }

  /// Takes the tag that `html` begins with; for a skipped element all of it. Returns its bytes.
  size_t read_tag(std::string_view html) {
    const bool closes = html.size() > 1 && html[1] == '/';
    const std::string name = tag_name(html.substr(closes ? 2 : 1));
    if (name.empty() && !closes && html.size() > 1 && html[1] != '!' && html[1] != '?') {
      add_text("<");  // a lone "<" in the text
      return 1;
    }
    const size_t end = html.find('>');
    if (end == std::string_view::npos) {
      return html.size();
    }
    if (!closes && name == "title" && page_title_.empty()) {
      return take_title(html, end);
    }
    if (!closes && contains(kSkipped, name) && name != "head") {
      return skip_element(html, name, end);
    }
    if (name.size() == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6') {
      closes ? end_heading() : begin_heading(static_cast<size_t>(name[1] - '1'));
    } else if (contains(kBlocks, name)) {
      break_line(name == "p" || name == "div" || name == "li" || name == "tr" || name == "section");
    } else if (name == "td" || name == "th") {
      current() += ' ';
    }
    return end + 1;
  }

  size_t take_title(std::string_view html, size_t end) {
    const size_t close = html.find("</", end);
    std::swap(text_, page_title_);
    add_text(html.substr(end + 1, close == std::string_view::npos ? close : close - end - 1));
    std::swap(text_, page_title_);
    page_title_ = short_title(std::move(page_title_));
    return close == std::string_view::npos ? html.size() : close;
  }

  size_t skip_element(std::string_view html, const std::string& name, size_t end) {
    if (never_closed_.contains(name)) {
      return end + 1;
    }
    size_t at = end;
    while ((at = html.find("</", at)) != std::string_view::npos) {
      if (tag_name(html.substr(at + 2, name.size() + 1)) == name) {
        const size_t close = html.find('>', at);
        return close == std::string_view::npos ? html.size() : close + 1;
      }
      at += 2;
    }
    never_closed_.insert(name);  // nor any that comes later: the rest is searched once
    return end + 1;              // only the tag goes
  }

  std::string& current() { return in_heading_ ? heading_ : text_; }

  void add_text(std::string_view text) {
    std::string& out = current();
    for (size_t i = 0; i < text.size();) {
      const char c = text[i];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
        if (!out.empty() && out.back() != ' ' && out.back() != '\n') {
          out += ' ';
        }
        ++i;
      } else if (c == '&') {
        i += append_entity(out, text.substr(i));
      } else {
        out += c;
        ++i;
      }
    }
  }

  void break_line(bool paragraph) {
    std::string& out = current();
    while (!out.empty() && out.back() == ' ') {
      out.pop_back();
    }
    if (out.empty()) {
      return;
    }
    const size_t lines = out.ends_with("\n\n") ? 2 : out.ends_with('\n') ? 1 : 0;
    out.append(lines < (paragraph ? 2u : 1u) ? (paragraph ? 2 : 1) - lines : 0, '\n');
  }

  void begin_heading(size_t level) {
    finish();
    in_heading_ = true;
    level_ = level;
    heading_.clear();
  }

  void end_heading() {
    if (in_heading_) {
      std::fill(headings_.begin() + static_cast<std::ptrdiff_t>(level_), headings_.end(), "");
      headings_[level_] = short_title(trimmed(heading_));
      in_heading_ = false;
    }
  }

  static std::string trimmed(const std::string& text) {
    const size_t begin = text.find_first_not_of(" \n");
    return begin == std::string::npos
               ? ""
               : text.substr(begin, text.find_last_not_of(" \n") - begin + 1);
  }

  void finish() {
    end_heading();
    const std::string body = trimmed(text_);
    if (!body.empty()) {
      std::string title = trimmed(page_title_);
      for (const std::string& heading : headings_) {
        if (!heading.empty() && heading != title) {
          title += (title.empty() ? "" : " › ") + heading;
        }
      }
      visit_({title, body, ""});
    }
    text_.clear();
  }

  const std::function<void(Section)>& visit_;
  std::string text_, heading_, page_title_;
  std::array<std::string, 6> headings_;
  std::set<std::string> never_closed_;  // skipped elements without a closing tag from here on
  bool in_heading_ = false;
  size_t level_ = 0;
};

}  // namespace

void split_html(std::string_view html, const std::function<void(Section)>& visit) {
  Page(visit).read(html);
}

}  // namespace heed
