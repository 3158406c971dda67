#include <algorithm>

#include "base/language.h"
#include "base/utf8.h"
#include "text/jinja_parser.h"

namespace heed::text::jinja {
namespace {

using Kind = Expression::Kind;

/// Parsing, evaluating and destroying a tree recurse, so its depth is bounded.
constexpr uint32_t kMaxDepth = 150;

}  // namespace

/// Counts how deep the parser is in its own recursion.
class Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxDepth) {
      raise("line {}: an expression is nested deeper than {} levels", parser_.current().line,
            kMaxDepth);
    }
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

Token ExpressionParser::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) {
    ++at_;
  }
  return token;
}

bool ExpressionParser::skip_op(std::string_view text) { return skip_if(is_op(text)); }
bool ExpressionParser::skip_name(std::string_view text) { return skip_if(is_name(text)); }

bool ExpressionParser::skip_if(bool found) {
  if (found) {
    take();
  }
  return found;
}

void ExpressionParser::unexpected(std::string_view wanted) const {
  const Token& token = current();
  std::string found = token.text.empty() ? "" : quote(token.text);
  if (found.empty()) {
    found = token.kind == Token::Kind::end         ? say("the end of the template")
            : token.kind == Token::Kind::string    ? say("an empty string")
            : token.kind == Token::Kind::block_end ? say("the end of the block")
                                                   : say("the end of the tag");
  }
  raise("line {}: found {}, expected {}", token.line, found, wanted);
}

void ExpressionParser::expect_op(std::string_view text) {
  if (!skip_op(text)) {
    unexpected(quote(text));
  }
}

std::string ExpressionParser::expect_name() {
  if (!is(Token::Kind::name)) {
    unexpected("a name");
  }
  return take().text;
}

void ExpressionParser::expect(Token::Kind kind, std::string_view what) {
  if (!is(kind)) {
    unexpected(what);
  }
  take();
}

void ExpressionParser::measure(Expression& node) {
  const auto count = [&](const ExpressionPtr& child) {
    node.depth = std::max(node.depth, child != nullptr ? child->depth + 1 : 1);
  };
  std::for_each(node.children.begin(), node.children.end(), count);
  std::for_each(node.arguments.positional.begin(), node.arguments.positional.end(), count);
  for (const auto& [name, value] : node.arguments.named) {
    count(value);
  }
  count(node.arguments.rest);
  count(node.arguments.named_rest);
  if (node.depth > kMaxDepth) {
    raise("line {}: an expression is nested deeper than {} levels", node.line, kMaxDepth);
  }
}

ExpressionPtr ExpressionParser::make(Kind kind, std::vector<ExpressionPtr> children,
                                     std::string text) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = current().line;
  node->text = std::move(text);
  node->children = std::move(children);
  measure(*node);
  return node;
}

ExpressionPtr ExpressionParser::expression(bool conditional) {
  const Nesting nesting(*this);
  ExpressionPtr value = logical_or();
  while (conditional && skip_name("if")) {
    ExpressionPtr condition = logical_or();
    ExpressionPtr otherwise = skip_name("else") ? expression() : nullptr;
    value = make(Kind::conditional,
                 nodes(std::move(condition), std::move(value), std::move(otherwise)));
  }
  return value;
}

bool ExpressionParser::tuple_ends() const {
  return is(Token::Kind::block_end) || is(Token::Kind::print_end) || is_op(")") || is_op("=") ||
         is_name("recursive");
}

ExpressionPtr ExpressionParser::tuple(bool conditional) {
  ExpressionPtr first = expression(conditional);
  if (!is_op(",")) {
    return first;
  }
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (skip_op(",") && !tuple_ends()) {
    items.push_back(expression(conditional));
  }
  return make(Kind::tuple, std::move(items));
}

ExpressionPtr ExpressionParser::logical_or() {
  ExpressionPtr left = logical_and();
  while (skip_name("or")) {
    ExpressionPtr right = logical_and();
    left = make(Kind::logical_or, nodes(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_and() {
  ExpressionPtr left = negation();
  while (skip_name("and")) {
    ExpressionPtr right = negation();
    left = make(Kind::logical_and, nodes(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (is_name("not") && !is_name(next(), "in")) {
    const Nesting nesting(*this);
    take();
    return make(Kind::unary, nodes(negation()), "not");
  }
  return comparison();
}

ExpressionPtr ExpressionParser::comparison() {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> operators;
  operands.push_back(sum());
  while (true) {
    const bool symbol = is(Token::Kind::op) &&
                        std::find(std::begin(kOperators), std::end(kOperators), current().text) !=
                            std::end(kOperators);
    if (symbol || is_name("in")) {
      operators.push_back(take().text);
    } else if (is_name("not") && is_name(next(), "in")) {
      take();
      take();
      operators.emplace_back("not in");
    } else {
      break;
    }
    operands.push_back(sum());
  }
  if (operators.empty()) {
    return std::move(operands[0]);
  }
  ExpressionPtr node = make(Kind::comparison, std::move(operands));
  node->operators = std::move(operators);
  return node;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concat();
  while (is_op("+") || is_op("-")) {
    std::string op = take().text;
    ExpressionPtr right = concat();
    left = make(Kind::binary, nodes(std::move(left), std::move(right)), std::move(op));
  }
  return left;
}

ExpressionPtr ExpressionParser::concat() {
  std::vector<ExpressionPtr> parts;
  parts.push_back(product());
  while (skip_op("~")) {
    parts.push_back(product());
  }
  return parts.size() == 1 ? std::move(parts[0]) : make(Kind::concat, std::move(parts));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    std::string op = take().text;
    ExpressionPtr right = power();
    left = make(Kind::binary, nodes(std::move(left), std::move(right)), std::move(op));
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary();
  while (skip_op("**")) {
    ExpressionPtr right = unary();
    left = make(Kind::binary, nodes(std::move(left), std::move(right)), "**");
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPtr node;
  if (is_op("-") || is_op("+")) {
    std::string op = take().text;
    node = make(Kind::unary, nodes(unary(false)), std::move(op));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace heed::text::jinja
