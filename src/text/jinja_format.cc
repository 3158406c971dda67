#include <algorithm>
#include <cmath>

#include "text/jinja_runtime.h"
#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

constexpr int kMaxWidth = 10'000;

/// What stands between % or : and the letter of a format.
struct Spec {
  std::string fill = " ";
  char align = '\0';  ///< < > ^ =; none: left for strings, right for numbers
  char sign = '-';
  bool alternate = false, thousands = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

int read_number(std::string_view text, size_t& at) {
  int number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > kMaxWidth) {
      raise("a format wider than {} characters", kMaxWidth);
    }
  }
  return number;
}

std::string with_thousands(std::string digits) {
  const size_t end = std::min(digits.find('.'), digits.size());
  for (size_t i = end; i > 3; i -= 3) {
    digits.insert(i - 3, ",");
  }
  return digits;
}

/// The digits of a number without its sign.
std::string digits_of(const Value& value, const Spec& spec) {
  const int precision = spec.precision < 0 ? 6 : std::min(spec.precision, 100);
  switch (spec.type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", std::abs(value.number()), precision);
    case '%':
      return fmt::format("{:.{}f}%", std::abs(value.number()) * 100, precision);
    case 'e':
    case 'E':
      return fmt::format("{:.{}e}", std::abs(value.number()), precision);
    case 'g':
    case 'G':
      return fmt::format("{:.{}g}", std::abs(value.number()), std::max(precision, 1));
    default:
      break;
  }
  if (value.is<double>() && (spec.type == '\0' || spec.type == 's')) {
    return spec.precision < 0 ? float_text(std::abs(value.number()))
                              : fmt::format("{:.{}g}", std::abs(value.number()), precision);
  }
  if (value.is<double>() && std::abs(value.number()) >= 9e18) {
    raise("a whole number of more than 64 bits");
  }
  const auto whole = value.is_integer() ? value.integer() : static_cast<int64_t>(value.number());
  const uint64_t size =
      whole < 0 ? ~static_cast<uint64_t>(whole) + 1 : static_cast<uint64_t>(whole);
  switch (spec.type) {
    case 'x':
      return fmt::format("{}{:x}", spec.alternate ? "0x" : "", size);
    case 'X':
      return fmt::format("{}{:X}", spec.alternate ? "0X" : "", size);
    case 'o':
      return fmt::format("{}{:o}", spec.alternate ? "0o" : "", size);
    case 'b':
      return fmt::format("{}{:b}", spec.alternate ? "0b" : "", size);
    default:
      return std::to_string(size);
  }
}

std::string padded(const std::string& text, std::string_view sign, const Spec& spec, char align) {
  const size_t count = character_count(text) + sign.size();
  const auto width = static_cast<size_t>(spec.width);
  const size_t missing = width > count ? width - count : 0;
  const size_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  std::string before, after;
  for (size_t i = 0; i < missing; ++i) {
    (i < left ? before : after) += spec.fill;
  }
  return align == '=' ? std::string(sign) + before + text + after
                      : before + std::string(sign) + text + after;
}

std::string format_value(Budget& budget, const Value& value, const Spec& spec) {
  const bool text_type = spec.type == 's' || spec.type == 'r';
  if (value.is_number() && !text_type && !(value.is<bool>() && spec.type == '\0')) {
    std::string digits = digits_of(value, spec);
    const bool negative = value.number() < 0;
    const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    return padded(spec.thousands ? with_thousands(std::move(digits)) : digits, sign, spec,
                  spec.align == '\0' ? '>' : spec.align);
  }
  if (!text_type && spec.type != '\0') {
    raise("the format {} needs a number, not a value of type {}", spec.type, value.type_name());
  }
  std::string text;
  if (spec.type == 'r') {
    TextBuilder out(budget);
    append_repr(out, value);
    text = out.take();
  } else {
    text = to_text(budget, value);
  }
  if (spec.precision >= 0) {
    text.resize(character_offset(text, static_cast<size_t>(spec.precision)));
  }
  return padded(text, "", spec, spec.align == '\0' ? '<' : spec.align);
}

/// What follows a ":" in a field of str.format().
Spec read_braces_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  constexpr std::string_view kAligns = "<>^=";
  const size_t first = text.empty() ? 0 : decode_one(text.data(), text.data() + text.size()).length;
  if (first < text.size() && kAligns.find(text[first]) != std::string_view::npos) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && kAligns.find(text[0]) != std::string_view::npos) {
    spec.align = text[at++];
  }
  const auto skip = [&](char c) { return at < text.size() && text[at] == c && ++at > 0; };
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) {
    spec.sign = text[at++];
  }
  spec.alternate = skip('#');
  if (skip('0') && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_number(text, at);
  spec.thousands = skip(',');
  if (skip('.')) {
    spec.precision = read_number(text, at);
  }
  spec.type = at < text.size() ? text[at++] : '\0';
  if (at != text.size() ||
      (spec.type != '\0' &&
       std::string_view("sdxXobeEfFgG%").find(spec.type) == std::string_view::npos)) {
    raise("a format that is not known");
  }
  return spec;
}

/// What stands between % and its letter; `at` is behind the %.
Spec read_percent_spec(std::string_view text, size_t& at) {
  Spec spec;
  for (; at < text.size() && std::string_view("-+ #0").find(text[at]) != std::string_view::npos;
       ++at) {
    if (text[at] == '-') {
      spec.align = '<';
    } else if (text[at] == '0' && spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    } else if (text[at] == '#') {
      spec.alternate = true;
    } else if (text[at] != '0') {
      spec.sign = text[at];
    }
  }
  if (spec.align == '<') {
    spec.fill = " ";
  }
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') {
    spec.precision = read_number(text, ++at);
  }
  spec.type = at < text.size() ? text[at++] : '\0';
  if (spec.type == 'i' || spec.type == 'u') {
    spec.type = 'd';
  }
  if (spec.type == '\0' ||
      std::string_view("srdxXoeEfFgG%").find(spec.type) == std::string_view::npos) {
    raise("a format that is not known");
  }
  if (spec.align == '\0') {
    spec.align = '>';
  }
  return spec;
}

}  // namespace

Value format_percent(Budget& budget, std::string_view text, const Value& values) {
  TextBuilder out(budget);
  size_t used = 0;
  const bool tuple = values.is_list() && values.list().kind == ListObject::Kind::tuple;
  const auto next = [&]() -> const Value& {
    if (used >= (tuple ? values.list().items.size() : 1)) {
      raise("a format needs more values than there are");
    }
    ++used;
    return tuple ? values.list().items[used - 1] : values;
  };
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '%') {
      const size_t end = std::min(text.find('%', i), text.size());
      out.append(text.substr(i, end - i));
      i = end;
      continue;
    }
    ++i;
    Value by_name;
    const bool named = i < text.size() && text[i] == '(';
    if (named) {
      const size_t close = text.find(')', i);
      if (close == std::string_view::npos || !values.is_dict()) {
        raise("a format with a name needs a dictionary");
      }
      by_name = get_item(budget, values,
                         make_string(budget, std::string(text.substr(i + 1, close - i - 1))));
      i = close + 1;
    }
    const Spec spec = read_percent_spec(text, i);
    out.append(spec.type == '%' ? "%" : format_value(budget, named ? by_name : next(), spec));
  }
  if (tuple && used < values.list().items.size()) {
    raise("a format uses fewer values than there are");
  }
  return make_string(budget, out.take());
}

Value format_braces(Budget& budget, std::string_view text, const CallArguments& arguments) {
  TextBuilder out(budget);
  size_t automatic = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool doubled = i + 1 < text.size() && text[i + 1] == text[i];
    if ((text[i] == '{' || text[i] == '}') && doubled) {
      out.append(text.substr(i++, 1));
      continue;
    }
    if (text[i] != '{') {
      out.append(text.substr(i, 1));
      continue;
    }
    const size_t close = text.find('}', i);
    if (close == std::string_view::npos) {
      raise("a format with a '{{' that is not closed");
    }
    const std::string_view field = text.substr(i + 1, close - i - 1);
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    Spec spec = colon < field.size() ? read_braces_spec(field.substr(colon + 1)) : Spec{};
    if (name.ends_with("!r") || name.ends_with("!s")) {
      spec.type = name.back();
      name.remove_suffix(2);
    }
    const bool number = name.find_first_not_of("0123456789") == std::string_view::npos;
    size_t at = 0;
    const size_t index = !number        ? ~size_t{0}
                         : name.empty() ? automatic++
                                        : static_cast<size_t>(read_number(name, at));
    const Value& value = arguments.at(index, number ? "" : name, "format");
    out.append(format_value(budget, value, spec));
    i = close;
  }
  return make_string(budget, out.take());
}

}  // namespace heed::text::jinja
