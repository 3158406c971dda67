#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace heed::text::jinja {

/// Parses a template's text. Throws TemplateError with the line.
Block parse(std::string_view source);

template <class... Nodes>
std::vector<ExpressionPtr> nodes(Nodes... each) {
  std::vector<ExpressionPtr> all;
  (all.push_back(std::move(each)), ...);
  return all;
}

/// A position in a list of tokens, and the grammar of expressions.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  /// `conditional`: whether `a if b else c` may stand here.
  ExpressionPtr expression(bool conditional = true);
  /// Also several expressions with commas between them.
  ExpressionPtr tuple(bool conditional = true);
  /// Filters "| a | b(c)" behind `input`, which may be null.
  ExpressionPtr filters(ExpressionPtr input);
  /// Filters "a | b(c)" of {% filter %}.
  ExpressionPtr first_filter();
  ExpressionPtr call(ExpressionPtr callee);

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool is(Token::Kind kind) const { return current().kind == kind; }
  bool is_op(std::string_view text) const { return is_op(current(), text); }
  bool is_name(std::string_view text) const { return is_name(current(), text); }
  static bool is_op(const Token& token, std::string_view text) {
    return token.kind == Token::Kind::op && token.text == text;
  }
  static bool is_name(const Token& token, std::string_view text) {
    return token.kind == Token::Kind::name && token.text == text;
  }
  bool skip_op(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_op(std::string_view text);
  std::string expect_name();
  void expect(Token::Kind kind, std::string_view what);
  [[noreturn]] void unexpected(std::string_view wanted) const;

 private:
  friend class Nesting;
  ExpressionPtr make(Expression::Kind kind, std::vector<ExpressionPtr> children,
                     std::string text = "") const;
  bool skip_if(bool found);
  static void measure(Expression& node);
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concat();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters = true);
  ExpressionPtr primary();
  ExpressionPtr number();
  ExpressionPtr parenthesised();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr filter(ExpressionPtr input);
  ExpressionPtr named_filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr input);
  Arguments arguments();
  bool tuple_ends() const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
};

}  // namespace heed::text::jinja
