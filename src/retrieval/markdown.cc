#include <algorithm>
#include <array>

#include "base/trimmed.h"
#include "retrieval/documents.h"

namespace heed {
namespace {

/// Level 1 … 6 of an ATX heading ("## Title"), else 0.
size_t heading_level(std::string_view line) {
  const size_t level = line.find_first_not_of('#');
  const bool heading = level != std::string_view::npos && level >= 1 && level <= 6 &&
                       (line[level] == ' ' || line[level] == '\t');
  return heading ? level : 0;
}

/// A line without the marks that only style it: emphasis, code ticks, the targets of links.
std::string plain_line(std::string_view line) {
  // Looked for once: a line of brackets alone would be searched for each of them.
  const size_t last_link = line.rfind("](");
  const size_t last_target = line.rfind(')');
  const auto comes = [](size_t last, size_t at) {
    return last != std::string_view::npos && last >= at;
  };
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '`' || (c == '*' && line.substr(i, 2) == "**")) {
      i += c == '*' ? 1 : 0;
      continue;
    }
    if (c == '!' && line.substr(i, 2) == "![") {
      continue;
    }
    if (c == '[' || (c == ']' && line.substr(i, 2) == "](")) {
      // The bracket goes, or the whole target.
      if (c == '[' ? comes(last_link, i) : comes(last_target, i)) {
        i = c == '[' ? i : line.find(')', i);
        continue;
      }
    }
    plain += c;
  }
  return plain;
}

}  // namespace

void split_markdown(std::string_view markdown, const std::function<void(Section)>& visit) {
  std::array<std::string, 6> headings;
  std::string text;
  std::string_view fence;
  const auto finish = [&] {
    if (!trimmed(text).empty()) {
      std::string title;
      for (const std::string& heading : headings) {
        title += heading.empty() ? "" : (title.empty() ? "" : " › ") + heading;
      }
      visit({title, std::string(trimmed(text)), ""});
    }
    text.clear();
  };
  if (markdown.starts_with("---\n")) {  // front matter
    const size_t end = markdown.find("\n---", 3);
    markdown.remove_prefix(end == std::string_view::npos ? 0 : std::min(end + 4, markdown.size()));
  }
  while (!markdown.empty()) {
    const size_t end = markdown.find('\n');
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(end == std::string_view::npos ? markdown.size() : end + 1);
    const std::string_view bare = trimmed(line);
    if (bare.starts_with("```") || bare.starts_with("~~~")) {
      const std::string_view mark = bare.substr(0, 3);
      if (fence.empty() || fence == mark) {
        fence = fence.empty() ? mark : std::string_view();
        continue;
      }
    }
    if (const size_t level = fence.empty() ? heading_level(line) : 0; level > 0) {
      finish();
      std::fill(headings.begin() + static_cast<std::ptrdiff_t>(level) - 1, headings.end(), "");
      std::string_view title = trimmed(line.substr(level));
      title = trimmed(title.substr(0, title.find_last_not_of('#') + 1));
      headings[level - 1] = short_title(plain_line(title));
      continue;
    }
    text += fence.empty() ? plain_line(line) : std::string(line);
    text += '\n';
  }
  finish();
}

}  // namespace heed
