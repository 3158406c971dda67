#include <algorithm>

#include "text/jinja_runtime.h"
#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

using Kind = ListObject::Kind;
using Method = Value (*)(Budget&, const std::string&, const CallArguments&);

const std::string& string_at(const CallArguments& arguments, size_t index, std::string_view name,
                             std::string_view method) {
  const Value& value = arguments.at(index, name, method);
  if (!value.is_string()) {
    raise("{}() needs a string, not a value of type {}", method, value.type_name());
  }
  return value.text();
}

Value strip(Budget& budget, const std::string& self, const CallArguments& arguments, bool left,
            bool right) {
  const Value* chars = arguments.find(0, "chars");
  const bool given = chars != nullptr && !chars->is_none();
  if (given && !chars->is_string()) {
    raise("strip() needs a string, not a value of type {}", chars->type_name());
  }
  budget.step(1 + self.size() / 64);
  return make_string(budget,
                     std::string(stripped(self, given ? &chars->text() : nullptr, left, right)));
}

/// Words between blanks; `limit` cuts at most, below 0: all.
std::vector<Value> split_blanks(Budget& budget, std::string_view text, int64_t limit, bool right) {
  std::vector<Value> parts;
  while (!(text = stripped(text, nullptr, !right, right)).empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.push_back(make_string(budget, std::string(text)));
      break;
    }
    size_t begin = 0;
    size_t end = text.size();
    if (right) {
      for (size_t i = 0; i < text.size();) {
        const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
        i += c.length;
        begin = is_blank(c.code) ? i : begin;
      }
      budget.step(text.size() / 64);
    } else {
      end = 0;
      while (end < text.size()) {
        const CodePoint c = decode_one(text.data() + end, text.data() + text.size());
        if (is_blank(c.code)) {
          break;
        }
        end += c.length;
      }
    }
    parts.push_back(make_string(budget, std::string(text.substr(begin, end - begin))));
    text = right ? text.substr(0, begin) : text.substr(end);
  }
  return parts;
}

Value split(Budget& budget, const std::string& self, const CallArguments& arguments, bool right) {
  const int64_t limit = arguments.integer(1, "maxsplit", -1);
  const Value* separator = arguments.find(0, "sep");
  std::vector<Value> parts;
  if (separator == nullptr || separator->is_none()) {
    parts = split_blanks(budget, self, limit, right);
  } else {
    const std::string& cut = string_at(arguments, 0, "sep", "split");
    if (cut.empty()) {
      raise("split() with an empty separator");
    }
    std::string_view text = self;
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
      const size_t at = right ? text.rfind(cut) : text.find(cut);
      if (at == std::string_view::npos) {
        break;
      }
      const std::string_view part = right ? text.substr(at + cut.size()) : text.substr(0, at);
      parts.push_back(make_string(budget, std::string(part)));
      text = right ? text.substr(0, at) : text.substr(at + cut.size());
    }
    parts.push_back(make_string(budget, std::string(text)));
  }
  if (right) {
    std::reverse(parts.begin(), parts.end());
  }
  return make_list(budget, std::move(parts));
}

Value partition(Budget& budget, const std::string& self, const CallArguments& arguments,
                bool right) {
  const std::string& cut = string_at(arguments, 0, "sep", "partition");
  const size_t at = right ? self.rfind(cut) : self.find(cut);
  const bool found = at != std::string::npos && !cut.empty();
  std::vector<Value> parts;
  const auto add = [&](std::string text) { parts.push_back(make_string(budget, std::move(text))); };
  add(found ? self.substr(0, at) : right ? "" : self);
  add(found ? cut : "");
  add(found ? self.substr(at + cut.size()) : right ? self : "");
  return make_list(budget, std::move(parts), Kind::tuple);
}

Value splitlines(Budget& budget, const std::string& self, const CallArguments& arguments) {
  const bool keep = arguments.flag(0, "keepends");
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t i = 0; i < self.size();) {
    const CodePoint c = decode_one(self.data() + i, self.data() + self.size());
    const size_t end = i;
    i += c.length;
    const bool newline = (c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) ||
                         c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    if (newline) {
      i += c.code == '\r' && i < self.size() && self[i] == '\n' ? 1 : 0;
      lines.push_back(make_string(budget, self.substr(begin, (keep ? i : end) - begin)));
      begin = i;
    }
  }
  if (begin < self.size()) {
    lines.push_back(make_string(budget, self.substr(begin)));
  }
  return make_list(budget, std::move(lines));
}

/// startswith() and endswith(), with one string or a tuple of them.
Value has_affix(Budget& budget, const std::string& self, const CallArguments& arguments, bool end) {
  const Value& wanted = arguments.at(0, "prefix", end ? "endswith" : "startswith");
  const auto fits = [&](const Value& affix) {
    if (!affix.is_string()) {
      raise("{}() needs a string, not a value of type {}", end ? "endswith" : "startswith",
            affix.type_name());
    }
    return end ? self.ends_with(affix.text()) : self.starts_with(affix.text());
  };
  if (!wanted.is_list()) {
    return fits(wanted);
  }
  budget.step(wanted.list().items.size());
  return std::any_of(wanted.list().items.begin(), wanted.list().items.end(), fits);
}

Value find(Budget& budget, const std::string& self, const CallArguments& arguments, bool right,
           bool must) {
  const std::string& wanted = string_at(arguments, 0, "sub", "find");
  budget.step(1 + self.size() / 64);
  const size_t at = right ? self.rfind(wanted) : self.find(wanted);
  if (at == std::string::npos) {
    if (must) {
      raise("substring not found");
    }
    return int64_t{-1};
  }
  return static_cast<int64_t>(character_count(std::string_view(self).substr(0, at)));
}

Value count(Budget& budget, const std::string& self, const CallArguments& arguments) {
  const std::string& wanted = string_at(arguments, 0, "sub", "count");
  budget.step(1 + self.size() / 64);
  if (wanted.empty()) {
    return static_cast<int64_t>(character_count(self)) + 1;
  }
  int64_t found = 0;
  for (size_t at = self.find(wanted); at != std::string::npos;
       at = self.find(wanted, at + wanted.size())) {
    ++found;
  }
  return found;
}

Value justify(Budget& budget, const std::string& self, const CallArguments& arguments, char side) {
  const int64_t width = arguments.integer(0, "width", 0);
  const std::string fill = arguments.string(1, "fillchar", " ");
  const int64_t missing = width - static_cast<int64_t>(character_count(self));
  if (missing <= 0) {
    return make_string(budget, self);
  }
  const int64_t left = side == 'r'   ? missing
                       : side == 'c' ? missing / 2 + (missing & width & 1)
                                     : 0;
  TextBuilder out(budget);
  for (int64_t i = 0; i < left; ++i) {
    out.append(fill);
    budget.step();
  }
  out.append(self);
  for (int64_t i = left; i < missing; ++i) {
    out.append(fill);
    budget.step();
  }
  return make_string(budget, out.take());
}

Value zfill(Budget& budget, const std::string& self, const CallArguments& arguments) {
  const int64_t width = arguments.integer(0, "width", 0);
  const int64_t missing = width - static_cast<int64_t>(character_count(self));
  const bool sign = self.starts_with('-') || self.starts_with('+');
  TextBuilder out(budget);
  out.append(sign ? self.substr(0, 1) : "");
  out.append(static_cast<uint64_t>(std::max<int64_t>(missing, 0)), '0');
  out.append(sign ? self.substr(1) : self);
  return make_string(budget, out.take());
}

Value join(Budget& budget, const std::string& self, const CallArguments& arguments) {
  TextBuilder out(budget);
  bool first = true;
  for (const Value& item : iterate(budget, arguments.at(0, "iterable", "join"))) {
    if (!item.is_string()) {
      raise("join() needs strings, not a value of type {}", item.type_name());
    }
    out.append(first ? "" : self);
    out.append(item.text());
    first = false;
  }
  return make_string(budget, out.take());
}

/// Python's title(): a letter after anything that is no letter begins a word.
Value title(Budget& budget, const std::string& self, const CallArguments&) {
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < self.size();) {
    const CodePoint c = decode_one(self.data() + i, self.data() + self.size());
    const std::string_view bytes = std::string_view(self).substr(i, c.length);
    const utf8proc_category_t kind = category(c.code);
    const bool cased = kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
                       kind == UTF8PROC_CATEGORY_LT;
    out += inside ? lower(bytes) : capitalized(bytes);
    inside = cased;
    i += c.length;
  }
  return make_string(budget, std::move(out));
}

Value swapcase(Budget& budget, const std::string& self, const CallArguments&) {
  std::string out;
  for (size_t i = 0; i < self.size();) {
    const CodePoint c = decode_one(self.data() + i, self.data() + self.size());
    const std::string_view bytes = std::string_view(self).substr(i, c.length);
    out += category(c.code) == UTF8PROC_CATEGORY_LU ? lower(bytes) : upper(bytes);
    i += c.length;
  }
  return make_string(budget, std::move(out));
}

Value remove_affix(Budget& budget, const std::string& self, const CallArguments& arguments,
                   bool end) {
  const std::string& affix = string_at(arguments, 0, "", end ? "removesuffix" : "removeprefix");
  const bool there = end ? self.ends_with(affix) : self.starts_with(affix);
  return make_string(budget, !there ? self
                             : end  ? self.substr(0, self.size() - affix.size())
                                    : self.substr(affix.size()));
}

/// Whether the string is not empty and all its characters pass.
template <class Fn>
bool all_characters(std::string_view text, const Fn& passes) {
  bool all = !text.empty();
  for (size_t i = 0; i < text.size() && all;) {
    const CodePoint c = decode_one(text.data() + i, text.data() + text.size());
    all = passes(c.code);
    i += c.length;
  }
  return all;
}

bool is_letter(char32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }
bool is_alphanumeric(char32_t code) { return is_letter(code) || is_decimal(code); }

struct Entry {
  std::string_view name;
  Method method;
};

#define HEED_METHOD(expression)                                          \
  [](Budget& b, const std::string& s, const CallArguments& a) -> Value { \
    (void)b, (void)a;                                                    \
    return expression;                                                   \
  }

constexpr Entry kMethods[] = {
    {"strip", HEED_METHOD(strip(b, s, a, true, true))},
    {"lstrip", HEED_METHOD(strip(b, s, a, true, false))},
    {"rstrip", HEED_METHOD(strip(b, s, a, false, true))},
    {"split", HEED_METHOD(split(b, s, a, false))},
    {"rsplit", HEED_METHOD(split(b, s, a, true))},
    {"splitlines", splitlines},
    {"partition", HEED_METHOD(partition(b, s, a, false))},
    {"rpartition", HEED_METHOD(partition(b, s, a, true))},
    {"startswith", HEED_METHOD(has_affix(b, s, a, false))},
    {"endswith", HEED_METHOD(has_affix(b, s, a, true))},
    {"find", HEED_METHOD(find(b, s, a, false, false))},
    {"rfind", HEED_METHOD(find(b, s, a, true, false))},
    {"index", HEED_METHOD(find(b, s, a, false, true))},
    {"rindex", HEED_METHOD(find(b, s, a, true, true))},
    {"count", count},
    {"replace", HEED_METHOD(replace(b, s, string_at(a, 0, "old", "replace"),
                                    string_at(a, 1, "new", "replace"), a.integer(2, "count", -1)))},
    {"upper", HEED_METHOD(make_string(b, upper(s)))},
    {"lower", HEED_METHOD(make_string(b, lower(s)))},
    {"casefold", HEED_METHOD(make_string(b, lower(s)))},
    {"capitalize", HEED_METHOD(make_string(b, capitalized(s)))},
    {"title", title},
    {"swapcase", swapcase},
    {"join", join},
    {"format", HEED_METHOD(format_braces(b, s, a))},
    {"ljust", HEED_METHOD(justify(b, s, a, 'l'))},
    {"rjust", HEED_METHOD(justify(b, s, a, 'r'))},
    {"center", HEED_METHOD(justify(b, s, a, 'c'))},
    {"zfill", zfill},
    {"removeprefix", HEED_METHOD(remove_affix(b, s, a, false))},
    {"removesuffix", HEED_METHOD(remove_affix(b, s, a, true))},
    {"isdigit", HEED_METHOD(all_characters(s, is_decimal))},
    {"isdecimal", HEED_METHOD(all_characters(s, is_decimal))},
    {"isnumeric", HEED_METHOD(all_characters(s, is_decimal))},
    {"isalpha", HEED_METHOD(all_characters(s, is_letter))},
    {"isalnum", HEED_METHOD(all_characters(s, is_alphanumeric))},
    {"isspace", HEED_METHOD(all_characters(s, is_blank))},
    {"isascii", HEED_METHOD(is_ascii(s))},
    {"isupper", HEED_METHOD(upper(s) == s && lower(s) != s)},
    {"islower", HEED_METHOD(lower(s) == s && upper(s) != s)},
};
#undef HEED_METHOD

const Entry* find_entry(std::string_view name) {
  const auto found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kMethods) ? nullptr : found;
}

}  // namespace

bool has_string_method(std::string_view name) { return find_entry(name) != nullptr; }

Value call_string_method(Budget& budget, const std::string& self, std::string_view name,
                         const CallArguments& arguments) {
  budget.step();
  budget.read(self);
  budget.require(self.size() * 3);
  return find_entry(name)->method(budget, self, arguments);
}

}  // namespace heed::text::jinja
