#include "text/jinja_lexer.h"

#include <algorithm>
#include <cctype>

#include "text/jinja_value.h"
#include "text/unicode.h"

namespace heed::text::jinja {
namespace {

constexpr size_t kMaxTokens = 200'000;

/// Python's idea of a blank: Unicode's, and four control characters.
bool blank(char32_t code) { return is_space(code) || (code >= 0x1C && code <= 0x1F); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
}

/// All line ends as \n, and without the last one.
std::string with_plain_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      root();
    }
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  void add(Token::Kind kind, std::string text) {
    if (tokens_.size() >= kMaxTokens) {
      raise("line {}: has more than {} tokens", line_, kMaxTokens);
    }
    tokens_.push_back({kind, std::move(text), line_});
  }

  void advance(size_t count) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(count), '\n'));
    at_ += count;
  }

  void skip_blanks() {
    size_t count = 0;
    const std::string_view text = rest();
    while (count < text.size()) {
      const CodePoint c = decode_one(text.data() + count, text.data() + text.size());
      if (!blank(c.code)) {
        break;
      }
      count += c.length;
    }
    advance(count);
  }

  /// Text up to the next tag, and that tag.
  void root() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        add_text(source_.substr(at_));
        advance(source_.size() - at_);
        return;
      }
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') {
        break;
      }
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    std::string text = source_.substr(at_, tag - at_);
    trim_before(text, kind, sign);
    add_text(std::move(text));
    advance(tag - at_ + 2);
    advance(sign == '-' || (sign == '+' && kind != '{') ? 1 : 0);
    line_starting_ = false;
    if (kind == '#') {
      comment();
    } else if (kind == '{') {
      add(Token::Kind::print_begin, "");
      inside(false);
    } else if (!raw_block()) {
      add(Token::Kind::block_begin, "");
      inside(true);
    }
  }

  void trim_before(std::string& text, char kind, char sign) const {
    const size_t last_line = text.rfind('\n') + 1;  // 0 where there is none
    size_t end = text.size();
    while (end > 0) {
      size_t begin = end - 1;
      while (begin > 0 && (text[begin] & 0xC0) == 0x80) {
        --begin;
      }
      if (!blank(decode_one(text.data() + begin, text.data() + end).code)) {
        break;
      }
      end = begin;
    }
    if (sign == '-') {
      text.resize(end);
    } else if (sign != '+' && kind != '{' && (last_line > 0 || line_starting_) &&
               end <= last_line) {
      text.resize(last_line);
    }
  }

  void add_text(std::string text) {
    if (!text.empty()) {
      add(Token::Kind::text, std::move(text));
    }
  }

  /// After the end of a block or comment: "-" takes all blanks, none takes one newline.
  void trim_after(char sign) {
    line_starting_ = false;
    if (sign == '-') {
      const size_t before = at_;
      skip_blanks();
      line_starting_ = at_ > before && source_[at_ - 1] == '\n';
    } else if (sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      advance(1);
      line_starting_ = true;
    }
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) {
      raise("line {}: a comment is not closed", line_);
    }
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    trim_after(sign);
  }

  /// Whether `word` and the end of a block come next; `sign` is what stands before %}.
  bool block_of(std::string_view word, size_t from, size_t& end, char& sign) const {
    const auto blanks = [&](size_t i) {
      while (i < source_.size() && std::isspace(static_cast<unsigned char>(source_[i])) != 0) {
        ++i;
      }
      return i;
    };
    size_t i = blanks(from);
    if (source_.compare(i, word.size(), word) != 0) {
      return false;
    }
    i = blanks(i + word.size());
    sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i++] : '\0';
    end = i + 2;
    return source_.compare(i, 2, "%}") == 0;
  }

  bool raw_block() {
    size_t body = 0;
    char sign = 0;
    if (!block_of("raw", at_, body, sign)) {
      return false;
    }
    advance(body - at_);
    if (sign == '-') {
      skip_blanks();
    }
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      const char before = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const size_t name = tag + 2 + (before == '-' || before == '+' ? 1 : 0);
      size_t end = 0;
      if (block_of("endraw", name, end, sign)) {
        std::string text = source_.substr(at_, tag - at_);
        trim_before(text, '%', before);
        add_text(std::move(text));
        advance(end - at_);
        trim_after(sign);
        return true;
      }
    }
    raise("line {}: a raw block is not closed", line_);
  }

  /// Tokens up to the end of a tag.
  void inside(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    int open = 0;
    while (true) {
      skip_blanks();
      const std::string_view text = rest();
      if (text.empty()) {
        raise("line {}: a tag is not closed ({} is missing)", line_, close);
      }
      const bool sign = text[0] == '-' || (block && text[0] == '+');
      if (open == 0 && (text.starts_with(close) || (sign && text.substr(1).starts_with(close)))) {
        advance(sign ? 3 : 2);
        add(block ? Token::Kind::block_end : Token::Kind::print_end, "");
        if (block) {
          trim_after(sign ? text[0] : '\0');
        } else if (sign) {
          trim_after('-');
          line_starting_ = false;
        }
        return;
      }
      open += operand_or_operator(text);
    }
  }

  /// Adds one token; +1 or -1 where it opens or closes a bracket.
  int operand_or_operator(std::string_view text) {
    if (begins_name(text[0])) {
      size_t n = 1;
      while (n < text.size() && (begins_name(text[n]) || is_digit(text[n]))) {
        ++n;
      }
      add(Token::Kind::name, std::string(text.substr(0, n)));
      advance(n);
    } else if (is_digit(text[0])) {
      number(text);
    } else if (text[0] == '\'' || text[0] == '"') {
      string(text);
    } else {
      static constexpr std::string_view kLong[] = {"**", "//", "==", "!=", ">=", "<="};
      static constexpr std::string_view kShort = "+-*/%~()[]{}<>=.:|,;";
      const auto found = std::find_if(std::begin(kLong), std::end(kLong),
                                      [&](std::string_view op) { return text.starts_with(op); });
      const size_t n = found != std::end(kLong) ? 2 : 1;
      if (n == 1 && kShort.find(text[0]) == std::string_view::npos) {
        raise("line {}: the character '{}' has no meaning in a tag", line_,
              std::isprint(static_cast<unsigned char>(text[0])) != 0 ? text[0] : '?');
      }
      add(Token::Kind::op, std::string(text.substr(0, n)));
      advance(n);
      const std::string_view brackets = "([{";
      const std::string_view closing = ")]}";
      return n > 1                                              ? 0
             : brackets.find(text[0]) != std::string_view::npos ? 1
             : closing.find(text[0]) != std::string_view::npos  ? -1
                                                                : 0;
    }
    return 0;
  }

  void number(std::string_view text) {
    size_t n = 0;
    const auto digits = [&] {
      while (n < text.size() && (is_digit(text[n]) || text[n] == '_')) {
        ++n;
      }
    };
    bool real = false;
    if (text.starts_with("0x") || text.starts_with("0X")) {
      n = 2;
      while (n < text.size() && std::isxdigit(static_cast<unsigned char>(text[n])) != 0) {
        ++n;
      }
    } else {
      digits();
      if (n + 1 < text.size() && text[n] == '.' && is_digit(text[n + 1])) {
        real = true;
        ++n;
        digits();
      }
      const size_t sign = n + 1 < text.size() && (text[n + 1] == '+' || text[n + 1] == '-') ? 2 : 1;
      if (n + sign < text.size() && (text[n] == 'e' || text[n] == 'E') &&
          is_digit(text[n + sign])) {
        real = true;
        n += sign;
        digits();
      }
    }
    std::string plain(text.substr(0, n));
    plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
    add(real ? Token::Kind::real : Token::Kind::integer, std::move(plain));
    advance(n);
  }

  void string(std::string_view text) {
    size_t end = 1;
    while (end < text.size() && text[end] != text[0]) {
      end += text[end] == '\\' ? 2 : 1;
    }
    if (end >= text.size()) {
      raise("line {}: a string is not closed", line_);
    }
    add(Token::Kind::string, unescape(text.substr(1, end - 1)));
    advance(end + 1);
  }

  /// Python's escapes; a backslash before anything else stays.
  std::string unescape(std::string_view text) const {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {  // string() has seen that a character follows a backslash
        out += text[i];
        continue;
      }
      const char c = text[++i];
      const size_t known = kLetters.find(c);
      if (known != std::string_view::npos) {
        out += kValues[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        i += code_escape(text.substr(i + 1), c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, out);
      } else if (c >= '0' && c <= '7') {
        size_t n = 1;
        while (n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7') {
          ++n;
        }
        i += code_escape(text.substr(i), n, 8, out) - 1;
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  size_t code_escape(std::string_view text, size_t count, int base, std::string& out) const {
    uint32_t code = 0;
    for (size_t i = 0; i < count; ++i) {
      const char c = i < text.size() ? text[i] : ' ';
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0 || code > 0x10FFFF) {
        raise("line {}: a string has an escape that is not complete", line_);
      }
      const int digit = is_digit(c) ? c - '0' : std::tolower(c) - 'a' + 10;
      code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      raise("line {}: a string has an escape that is no character", line_);
    }
    append_code(out, code);
    return count;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace heed::text::jinja
