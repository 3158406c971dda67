#include "heed/open.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/check.h"
#include "heed/pipelines.h"

namespace heed::app {

Opened open_model(const std::string& path, const std::string& tokenizer, const LoadOptions& load) {
  LoadedModel loaded = heed::open_model(path, {.tokenizer = tokenizer, .load = load});
  return {std::move(loaded.model), std::move(loaded.tokenizer)};
}

bool is_blank_line(const std::string& text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string::npos;
}

void for_each_line(const std::function<void(const std::string&)>& fn) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string line;
  for (bool first = true; std::getline(std::cin, line); first = false) {
    if (first && line.starts_with(kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    fn(line);
  }
}

namespace {

[[noreturn]] void cannot_print() {
  if (errno == EPIPE) {
    throw ReaderGone();
  }
  fail(ErrorKind::runtime, "stdout", "cannot be written: {}", std::strerror(errno));
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    cannot_print();
  }
}

void print_now(std::string_view text) {
  print(text);
  if (std::fflush(stdout) != 0) {
    cannot_print();
  }
}

std::string size_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024.0 && unit + 1 < std::size(units)) {
    bytes /= 1024.0;
    ++unit;
  }
  const int digits = unit == 0 ? 0 : bytes < 10 ? 2 : bytes < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", bytes, digits, units[unit]);
}

}  // namespace heed::app
