#include "text/jinja_print.h"

#include <algorithm>
#include <cmath>

#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

constexpr int kMaxPrintDepth = 250;

/// Python's str.isprintable() of one code point.
bool printable(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code == ' ';
    default:
      return true;
  }
}

void append_string_repr(TextBuilder& out, std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.append(1, quote);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
    const std::string_view bytes = text.substr(i, c.length);
    i += c.length;
    if (c.code == static_cast<unsigned char>(quote) || c.code == '\\') {
      out.append("\\");
      out.append(bytes);
    } else if (c.code == '\n') {
      out.append("\\n");
    } else if (c.code == '\r') {
      out.append("\\r");
    } else if (c.code == '\t') {
      out.append("\\t");
    } else if (printable(c.code)) {
      out.append(bytes);
    } else {
      const auto code = static_cast<uint32_t>(c.code);
      out.append(code < 0x100     ? fmt::format("\\x{:02x}", code)
                 : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                  : fmt::format("\\U{:08x}", code));
    }
  }
  out.append(1, quote);
}

void append_repr_at(TextBuilder& out, const Value& value, int depth);

void append_list(TextBuilder& out, const ListObject& list, int depth) {
  const bool tuple = list.kind == ListObject::Kind::tuple;
  const bool view = list.kind == ListObject::Kind::view;
  out.append(view ? "dict_items([" : tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    out.append(i == 0 ? "" : ", ");
    append_repr_at(out, list.items[i], depth + 1);
  }
  out.append(view ? "])" : tuple ? (list.items.size() == 1 ? ",)" : ")") : "]");
}

void append_dict(TextBuilder& out, const DictObject& dict, int depth) {
  out.append("{");
  for (size_t i = 0; i < dict.items.size(); ++i) {
    out.append(i == 0 ? "" : ", ");
    append_repr_at(out, dict.items[i].first, depth + 1);
    out.append(": ");
    append_repr_at(out, dict.items[i].second, depth + 1);
  }
  out.append("}");
}

void append_repr_at(TextBuilder& out, const Value& value, int depth) {
  out.budget().step();
  if (depth > kMaxPrintDepth) {
    raise("prints a value that is nested too deeply");
  }
  if (value.is_string()) {
    append_string_repr(out, value.text());
  } else if (value.is_undefined()) {
    out.append("Undefined");
  } else if (value.is_none()) {
    out.append("None");
  } else if (const auto* flag = value.get<bool>()) {
    out.append(*flag ? "True" : "False");
  } else if (const auto* integer = value.get<int64_t>()) {
    out.append(std::to_string(*integer));
  } else if (const auto* number = value.get<double>()) {
    out.append(float_text(*number));
  } else if (value.is_list()) {
    append_list(out, value.list(), depth);
  } else if (value.is_dict()) {
    append_dict(out, value.dict(), depth);
  } else if (const auto* space = value.get<NamespaceObject*>()) {
    out.append("<Namespace {");
    for (size_t i = 0; i < (*space)->attributes.size(); ++i) {
      out.append(i == 0 ? "" : ", ");
      append_string_repr(out, (*space)->attributes[i].first);
      out.append(": ");
      append_repr_at(out, Value((*space)->attributes[i].second), depth + 1);
    }
    out.append("}>");
  } else if (const auto* callable = value.get<CallableRef>()) {
    out.append(fmt::format("<function {}>", (*callable)->name));
  } else {
    out.append("<LoopContext>");
  }
}

/// Writes JSON as Python's json module does.
class JsonPrinter {
 public:
  JsonPrinter(Budget& budget, const JsonStyle& style) : out_(budget), style_(style) {}

  void print(const Value& value, int depth) {
    out_.budget().step();
    if (depth > kMaxPrintDepth) {
      raise("tojson: the value is nested too deeply");
    }
    if (value.is_string()) {
      string(value.text());
    } else if (value.is_list() && (value.list().kind == ListObject::Kind::list ||
                                   value.list().kind == ListObject::Kind::tuple)) {
      brackets('[', ']', value.list().items.size(), depth,
               [&](size_t i) { print(value.list().items[i], depth + 1); });
    } else if (value.is_dict()) {
      dict(value.dict(), depth);
    } else {
      out_.append(scalar(value));
    }
  }
  std::string take() { return out_.take(); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) {
      return "null";
    }
    if (const auto* flag = value.get<bool>()) {
      return *flag ? "true" : "false";
    }
    if (value.is_integer()) {
      return std::to_string(value.integer());
    }
    if (const auto* number = value.get<double>()) {
      return std::isnan(*number)   ? "NaN"
             : std::isinf(*number) ? (*number < 0 ? "-Infinity" : "Infinity")
                                   : float_text(*number);
    }
    raise("tojson: object of type {} is not JSON serializable", value.type_name());
  }

  void dict(const DictObject& dict, int depth) {
    std::vector<size_t> order(dict.items.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    if (style_.sort_keys) {
      std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return compare(out_.budget(), dict.items[a].first, dict.items[b].first) < 0;
      });
    }
    brackets('{', '}', order.size(), depth, [&](size_t i) {
      const auto& [key, value] = dict.items[order[i]];
      string(key.is_string() ? key.text() : scalar(key));
      out_.append(style_.key_separator);
      print(value, depth + 1);
    });
  }

  template <class Fn>
  void brackets(char open, char close, size_t count, int depth, const Fn& element) {
    out_.append(1, open);
    for (size_t i = 0; i < count; ++i) {
      out_.append(i == 0 ? "" : style_.item_separator);
      new_line(depth + 1);
      element(i);
    }
    if (count > 0) {
      new_line(depth);
    }
    out_.append(1, close);
  }

  void new_line(int depth) {
    if (style_.indent >= 0) {
      out_.append("\n");
      for (int i = 0; i < depth; ++i) {
        out_.append(style_.indent_text);
      }
    }
  }

  void string(std::string_view text) {
    out_.append("\"");
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
      character(c.code, text.substr(i, c.length));
      i += c.length;
    }
    out_.append("\"");
  }

  void character(char32_t code, std::string_view bytes) {
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kLetters = "\"\\nrtfb";
    const size_t at = code < 0x80 ? kEscaped.find(static_cast<char>(code)) : std::string_view::npos;
    const auto unit = [&](uint32_t value) { out_.append(fmt::format("\\u{:04x}", value)); };
    if (at != std::string_view::npos) {
      out_.append("\\");
      out_.append(1, kLetters[at]);
    } else if (code < 0x20 || (style_.ascii_only && code >= 0x7F && code < 0x10000)) {
      code == 0x7F ? out_.append(bytes) : unit(static_cast<uint32_t>(code));
    } else if (style_.ascii_only && code >= 0x10000) {
      unit(0xD800 + ((static_cast<uint32_t>(code) - 0x10000) >> 10));
      unit(0xDC00 + ((static_cast<uint32_t>(code) - 0x10000) & 0x3FF));
    } else {
      out_.append(bytes);
    }
  }

  TextBuilder out_;
  const JsonStyle& style_;
};

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) {
    return "nan";
  }
  if (std::isinf(number)) {
    return number < 0 ? "-inf" : "inf";
  }
  if (number != 0.0 && (std::abs(number) >= 1e16 || std::abs(number) < 1e-4)) {
    return fmt::format("{}", number);  // shortest digits, with an exponent here as in Python
  }
  std::string text = fmt::format("{}", number);
  if (text.find('e') != std::string::npos) {
    text = fmt::format("{:f}", number);
  }
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

void append_repr(TextBuilder& out, const Value& value) { append_repr_at(out, value, 0); }

std::string to_text(Budget& budget, const Value& value) {
  if (value.is_string()) {
    budget.require(value.text().size());
    return value.text();
  }
  if (value.is_undefined()) {
    return "";
  }
  TextBuilder out(budget);
  append_repr(out, value);
  return out.take();
}

std::string to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(budget, style);
  printer.print(value, 0);
  return printer.take();
}

}  // namespace heed::text::jinja
