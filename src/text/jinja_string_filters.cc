#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_runtime.h"
#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

/// The input as a string, as Jinja's filters on strings take it.
std::string soft(Budget& budget, const Value& input) { return to_text(budget, input); }

Value title(Budget& budget, const Value& input, const CallArguments&) {
  const std::string text = soft(budget, input);
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
    const std::string_view bytes = std::string_view(text).substr(i, c.length);
    const bool separator = is_blank(c.code) || c.code == '-' || c.code == '(' || c.code == '{' ||
                           c.code == '[' || c.code == '<';
    out += separator ? std::string(bytes) : inside ? lower(bytes) : upper(bytes);
    inside = !separator;
    i += c.length;
  }
  return make_string(budget, std::move(out));
}

Value trim(Budget& budget, const Value& input, const CallArguments& arguments) {
  const std::string text = soft(budget, input);
  const Value* chars = arguments.find(0, "chars");
  const bool given = chars != nullptr && chars->is_string();
  return make_string(budget,
                     std::string(stripped(text, given ? &chars->text() : nullptr, true, true)));
}

Value replace_filter(Budget& budget, const Value& input, const CallArguments& arguments) {
  const std::string from = to_text(budget, arguments.at(0, "old", "replace"));
  const std::string to = to_text(budget, arguments.at(1, "new", "replace"));
  return replace(budget, soft(budget, input), from, to, arguments.integer(2, "count", -1));
}

Value indent(Budget& budget, const Value& input, const CallArguments& arguments) {
  const Value* width = arguments.find(0, "width");
  TextBuilder margin(budget);
  if (width != nullptr && width->is_string()) {
    margin.append(width->text());
  } else {
    margin.append(static_cast<uint64_t>(std::max<int64_t>(arguments.integer(0, "width", 4), 0)),
                  ' ');
  }
  const bool blank = arguments.flag(2, "blank");
  const Value lines = call_string_method(budget, soft(budget, input) + "\n", "splitlines", {});
  TextBuilder out(budget);
  bool first = true;
  for (const Value& line : lines.list().items) {
    out.append(first ? "" : "\n");
    if (first ? arguments.flag(1, "first") : blank || !line.text().empty()) {
      out.append(margin.text());
    }
    out.append(line.text());
    first = false;
  }
  return make_string(budget, out.take());
}

Value truncate(Budget& budget, const Value& input, const CallArguments& arguments) {
  const std::string text = soft(budget, input);
  const int64_t wanted = arguments.integer(0, "length", 255);
  const std::string end = arguments.string(2, "end", "...");
  const int64_t leeway = arguments.integer(3, "leeway", 5);
  const auto end_length = static_cast<int64_t>(character_count(end));
  if (wanted < end_length || leeway < 0) {
    raise("truncate: the length is below that of the end");
  }
  const auto count = static_cast<int64_t>(character_count(text));
  if (count - leeway <= wanted) {
    return make_string(budget, text);
  }
  std::string head =
      text.substr(0, character_offset(text, static_cast<size_t>(wanted - end_length)));
  if (!arguments.flag(1, "killwords")) {
    head.resize(std::min(head.rfind(' '), head.size()));
  }
  return make_string(budget, head + end);
}

Value escape(Budget& budget, const Value& input, const CallArguments&) {
  return input.is_safe() ? input
                         : make_string(budget, html_escaped(budget, soft(budget, input)), true);
}

Value force_escape(Budget& budget, const Value& input, const CallArguments&) {
  return make_string(budget, html_escaped(budget, soft(budget, input)), true);
}

Value urlencode(Budget& budget, const Value& input, const CallArguments&) {
  TextBuilder out(budget);
  for (const char c : soft(budget, input)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    plain ? out.append(1, c) : out.append(fmt::format("%{:02X}", static_cast<unsigned char>(c)));
  }
  return make_string(budget, out.take());
}

Value format(Budget& budget, const Value& input, const CallArguments& arguments) {
  if (!arguments.named.empty()) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : arguments.named) {
      items.emplace_back(make_string(budget, name), value);
    }
    return format_percent(budget, soft(budget, input), make_dict(budget, std::move(items)));
  }
  return format_percent(budget, soft(budget, input),
                        make_list(budget, arguments.positional, ListObject::Kind::tuple));
}

bool parse_float(std::string_view text, double& number) {
  text = stripped(text, nullptr, true, true);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

Value whole_part(double number, const Value& otherwise) {
  return std::isfinite(number) && std::abs(number) < 9.2e18 ? Value(static_cast<int64_t>(number))
                                                            : otherwise;
}

Value to_int(Budget&, const Value& input, const CallArguments& arguments) {
  const Value* given = arguments.find(0, "default");
  Value otherwise = given != nullptr ? *given : Value(int64_t{0});
  if (input.is_number()) {
    return input.is_integer() ? Value(input.integer()) : whole_part(input.number(), otherwise);
  }
  if (!input.is_string()) {
    return otherwise;
  }
  std::string_view text = stripped(input.text(), nullptr, true, true);
  const auto base = static_cast<int>(std::clamp<int64_t>(arguments.integer(1, "base", 10), 2, 36));
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "+";
  text.remove_prefix(text.starts_with(prefix) ? prefix.size() : 0);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error == std::errc{} && end == text.data() + text.size()) {
    return number;
  }
  double real = 0.0;
  return parse_float(input.text(), real) ? whole_part(real, otherwise) : otherwise;
}

Value to_float(Budget&, const Value& input, const CallArguments& arguments) {
  const Value* given = arguments.find(0, "default");
  double number = 0.0;
  if (input.is_number()) {
    return input.number();
  }
  if (input.is_string() && parse_float(input.text(), number)) {
    return number;
  }
  return given != nullptr ? *given : Value(0.0);
}

Value round(Budget&, const Value& input, const CallArguments& arguments) {
  const int64_t precision = arguments.integer(0, "precision", 0);
  const std::string method = arguments.string(1, "method", "common");
  if (!input.is_number() || std::abs(precision) > 300) {
    raise("round needs a number and a precision of at most 300");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil" || method == "floor") {
    const double scaled = input.number() * scale;
    return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
  }
  if (input.is_integer() && precision >= 0) {
    return input.integer();
  }
  if (precision < 0) {
    const double rounded = std::nearbyint(input.number() * scale) / scale;
    return input.is_integer() ? whole_part(rounded, Value(rounded)) : Value(rounded);
  }
  // Rounds the exact decimal value, halves to even, as Python does.
  double rounded = 0.0;
  parse_float(fmt::format("{:.{}f}", input.number(), precision), rounded);
  return rounded;
}

Value absolute(Budget& budget, const Value& input, const CallArguments&) {
  if (!input.is_number()) {
    raise("abs needs a number, not a value of type {}", input.type_name());
  }
  if (input.is<double>()) {
    return std::abs(input.number());
  }
  return input.integer() < 0 ? binary(budget, "-", Value(int64_t{0}), input)
                             : Value(input.integer());
}

Value wordcount(Budget& budget, const Value& input, const CallArguments&) {
  int64_t words = 0;
  bool inside = false;
  const std::string text = soft(budget, input);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
    words += is_word(c.code) && !inside ? 1 : 0;
    inside = is_word(c.code);
    i += c.length;
  }
  return words;
}

Value tojson(Budget& budget, const Value& input, const CallArguments& arguments) {
  JsonStyle style;
  // transformers replaces Jinja's own filter: the arguments are those of json.dumps().
  style.ascii_only = arguments.flag(0, "ensure_ascii");
  const Value* indent = arguments.find(1, "indent");
  if (indent != nullptr && indent->is_string()) {
    style.indent = 1;
    style.indent_text = indent->text();
  } else if (indent != nullptr && !indent->is_none()) {
    style.indent = indent->is_integer() ? std::clamp<int64_t>(indent->integer(), 0, 64) : 0;
    style.indent_text = std::string(static_cast<size_t>(style.indent), ' ');
  }
  style.item_separator = style.indent >= 0 ? "," : ", ";
  const Value* separators = arguments.find(2, "separators");
  if (separators != nullptr && !separators->is_none()) {
    const std::vector<Value> both = iterate(budget, *separators);
    if (both.size() != 2 || !both[0].is_string() || !both[1].is_string()) {
      raise("tojson needs two separators");
    }
    style.item_separator = both[0].text();
    style.key_separator = both[1].text();
  }
  style.sort_keys = arguments.flag(3, "sort_keys");
  return make_string(budget, to_json(budget, input, style));
}

#define HEED_FILTER(expression)                                    \
  [](Budget& b, const Value& v, const CallArguments& a) -> Value { \
    (void)a;                                                       \
    return expression;                                             \
  }

struct Entry {
  std::string_view name;
  Filter filter;
};

constexpr Entry kFilters[] = {
    {"upper", HEED_FILTER(make_string(b, upper(soft(b, v))))},
    {"lower", HEED_FILTER(make_string(b, lower(soft(b, v))))},
    {"capitalize", HEED_FILTER(make_string(b, capitalized(soft(b, v))))},
    {"string", HEED_FILTER(make_string(b, soft(b, v)))},
    {"safe", HEED_FILTER(make_string(b, soft(b, v), true))},
    {"center", HEED_FILTER(call_string_method(b, soft(b, v), "center",
                                              {{Value(a.integer(0, "width", 80))}, {}}))},
    {"title", title},
    {"trim", trim},
    {"replace", replace_filter},
    {"indent", indent},
    {"truncate", truncate},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"urlencode", urlencode},
    {"format", format},
    {"int", to_int},
    {"float", to_float},
    {"round", round},
    {"abs", absolute},
    {"wordcount", wordcount},
    {"tojson", tojson},
};
#undef HEED_FILTER

}  // namespace

Filter find_string_filter(std::string_view name) {
  for (const Entry& entry : kFilters) {
    if (entry.name == name) {
      return entry.filter;
    }
  }
  return nullptr;
}

}  // namespace heed::text::jinja
