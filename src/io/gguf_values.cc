#include <cstring>

#include "base/check.h"
#include "base/utf8.h"
#include "io/gguf.h"
#include "io/gguf_format.h"

namespace heed {
namespace {

template <class T>
T element(const GgufValue& value, uint64_t index) {
  T number;
  std::memcpy(&number, value.data.data() + index * sizeof(T), sizeof(T));
  return number;
}

/// Calls fn(number) with element `index` in its own type; false for strings.
template <class Fn>
bool with_number(const GgufValue& value, uint64_t index, Fn&& fn) {
  switch (value.type) {
    case GgufType::u8:
      fn(element<uint8_t>(value, index));
      return true;
    case GgufType::i8:
      fn(element<int8_t>(value, index));
      return true;
    case GgufType::u16:
      fn(element<uint16_t>(value, index));
      return true;
    case GgufType::i16:
      fn(element<int16_t>(value, index));
      return true;
    case GgufType::u32:
      fn(element<uint32_t>(value, index));
      return true;
    case GgufType::i32:
      fn(element<int32_t>(value, index));
      return true;
    case GgufType::u64:
      fn(element<uint64_t>(value, index));
      return true;
    case GgufType::i64:
      fn(element<int64_t>(value, index));
      return true;
    case GgufType::f32:
      fn(element<float>(value, index));
      return true;
    case GgufType::f64:
      fn(element<double>(value, index));
      return true;
    default:
      return false;
  }
}

std::string_view string_at(std::span<const std::byte> data) {
  uint64_t length = 0;
  std::memcpy(&length, data.data(), 8);
  return {reinterpret_cast<const char*>(data.data()) + 8, length};
}

}  // namespace

void GgufFile::wanted(std::string_view key, std::string_view found, std::string_view what) const {
  fail(ErrorKind::data, file(), "{} is {}; {} is wanted", key, found, what);
}

const GgufValue& GgufFile::scalar(std::string_view key) const {
  const auto found = values_.find(key);
  check_data(found != values_.end(), file(), "{} is missing", key);
  if (found->second.is_array) {
    wanted(key, "an array", "a single value");
  }
  return found->second;
}

const GgufValue& GgufFile::array(std::string_view key) const {
  const auto found = values_.find(key);
  check_data(found != values_.end(), file(), "{} is missing", key);
  if (!found->second.is_array) {
    wanted(key, "a single value", "an array");
  }
  return found->second;
}

int64_t GgufFile::integer_at(std::string_view key, const GgufValue& value, uint64_t index,
                             int64_t low, int64_t high) const {
  int64_t result = 0;
  const bool numeric = with_number(value, index, [&](auto number) {
    if constexpr (std::is_integral_v<decltype(number)>) {
      if (std::cmp_less(number, low) || std::cmp_greater(number, high)) {
        wanted(key, std::to_string(number), fmt::format("a whole number from {} to {}", low, high));
      }
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number of 8 bits, not a character
      result = static_cast<int64_t>(number);
    } else {
      wanted(key, std::to_string(number), "a whole number");
    }
  });
  if (!numeric) {
    wanted(key, value.type == GgufType::string ? "a string" : "a bool", "a whole number");
  }
  return result;
}

double GgufFile::number_at(std::string_view key, const GgufValue& value, uint64_t index) const {
  double result = 0;
  if (!with_number(value, index, [&](auto number) { result = static_cast<double>(number); })) {
    wanted(key, value.type == GgufType::string ? "a string" : "a bool", "a number");
  }
  return result;
}

std::string GgufFile::string(std::string_view key) const {
  const GgufValue& value = scalar(key);
  if (value.type != GgufType::string) {
    wanted(key, "no string", "a string");
  }
  return std::string(string_at(value.data));
}

int64_t GgufFile::integer(std::string_view key, int64_t low, int64_t high) const {
  return integer_at(key, scalar(key), 0, low, high);
}

double GgufFile::number(std::string_view key, double low, double high) const {
  const double value = number_at(key, scalar(key), 0);
  if (!(value >= low && value <= high)) {
    wanted(key, fmt::format("{}", value), fmt::format("a number from {} to {}", low, high));
  }
  return value;
}

bool GgufFile::boolean(std::string_view key) const {
  const GgufValue& value = scalar(key);
  if (value.type != GgufType::boolean) {
    wanted(key, "no bool", "a bool");
  }
  return value.data[0] != std::byte{0};
}

std::string GgufFile::string_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? string(key) : std::string(otherwise);
}
int64_t GgufFile::integer_or(std::string_view key, int64_t otherwise, int64_t low,
                             int64_t high) const {
  return has(key) ? integer(key, low, high) : otherwise;
}
double GgufFile::number_or(std::string_view key, double otherwise, double low, double high) const {
  return has(key) ? number(key, low, high) : otherwise;
}
bool GgufFile::boolean_or(std::string_view key, bool otherwise) const {
  return has(key) ? boolean(key) : otherwise;
}

std::vector<std::string> GgufFile::strings(std::string_view key) const {
  const GgufValue& value = array(key);
  if (value.type != GgufType::string) {
    wanted(key, "an array of numbers", "an array of strings");
  }
  std::vector<std::string> all;
  all.reserve(value.count);
  std::span<const std::byte> rest = value.data;
  for (uint64_t i = 0; i < value.count; ++i) {
    all.emplace_back(string_at(rest));
    rest = rest.subspan(8 + all.back().size());
  }
  return all;
}

std::vector<int64_t> GgufFile::integers(std::string_view key, int64_t low, int64_t high) const {
  const GgufValue& value = array(key);
  std::vector<int64_t> all;
  all.reserve(value.type == GgufType::string ? 0 : value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    all.push_back(integer_at(key, value, i, low, high));
  }
  return all;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  const GgufValue& value = array(key);
  std::vector<double> all;
  all.reserve(value.type == GgufType::string ? 0 : value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    all.push_back(number_at(key, value, i));
  }
  return all;
}

}  // namespace heed
