#include "explore/explorer_page.h"

#include "base/check.h"
#include "explorer_page_bytes.h"
#include "io/gzip.h"

namespace heed {
namespace {

constexpr std::string_view kMarker = "<!--heed-data-->";
constexpr uint64_t kMostBytes = uint64_t{16} << 20;

}  // namespace

std::string_view explorer_page_gzip() {
  return {reinterpret_cast<const char*>(kExplorerPage), sizeof kExplorerPage};
}

const std::string& explorer_page() {
  static const std::string page = gunzip(explorer_page_gzip(), "the explorer page", kMostBytes);
  return page;
}

std::string explorer_page_with_data(std::string_view json) {
  const std::string& page = explorer_page();
  const size_t marker = page.find(kMarker);
  check(marker != std::string::npos, "explorer_page", "the page has no place for its data");
  std::string out = page.substr(0, marker);
  out += R"(<script type="application/json" id="heed-data">)";
  for (const char c : json) {  // "<" stands in strings only, where it may be escaped
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  out += "</script>";
  out.append(page, marker + kMarker.size());
  return out;
}

}  // namespace heed
