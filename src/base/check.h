#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "heed/runtime.h"

namespace heed {

/// Throws Error "where: message". `where` is an op ("softmax") or a file ("model.safetensors").
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, std::string_view where, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw Error(kind, fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...)));
}

/// The one way to test what a caller handed to an op: `softmax: axis 3 out of range for [2, 5]`.
template <class... Args>
void check(bool ok, std::string_view op, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]] {
    fail(ErrorKind::runtime, op, format, std::forward<Args>(args)...);
  }
}

/// The same for untrusted files and data: `where` names the file.
template <class... Args>
void check_data(bool ok, std::string_view where, fmt::format_string<Args...> format,
                Args&&... args) {
  if (!ok) [[unlikely]] {
    fail(ErrorKind::data, where, format, std::forward<Args>(args)...);
  }
}

}  // namespace heed
