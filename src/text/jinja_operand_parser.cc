#include <charconv>

#include "base/utf8.h"
#include "text/jinja_parser.h"

namespace heed::text::jinja {

using Kind = Expression::Kind;

ExpressionPtr ExpressionParser::primary() {
  switch (current().kind) {
    case Token::Kind::name: {
      const std::string name = take().text;
      ExpressionPtr node = make(Kind::literal, {});
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        node->literal = Expression::Literal::boolean;
        node->integer = name == "true" || name == "True" ? 1 : 0;
      } else if (name != "none" && name != "None") {
        node->kind = Kind::name;
        node->text = name;
      }
      return node;
    }
    case Token::Kind::string: {
      ExpressionPtr node = make(Kind::literal, {});
      node->literal = Expression::Literal::string;
      while (is(Token::Kind::string)) {
        node->text += take().text;
      }
      return node;
    }
    case Token::Kind::integer:
    case Token::Kind::real:
      return number();
    default:
      break;
  }
  if (is_op("(")) {
    return parenthesised();
  }
  if (is_op("[")) {
    return list();
  }
  if (is_op("{")) {
    return dict();
  }
  unexpected("an expression");
}

ExpressionPtr ExpressionParser::number() {
  const Token token = take();
  ExpressionPtr node = make(Kind::literal, {});
  const bool hexadecimal = token.text.starts_with("0x") || token.text.starts_with("0X");
  const char* begin = token.text.data() + (hexadecimal ? 2 : 0);
  const char* end = token.text.data() + token.text.size();
  std::errc error{};
  if (token.kind == Token::Kind::integer) {
    node->literal = Expression::Literal::integer;
    error = std::from_chars(begin, end, node->integer, hexadecimal ? 16 : 10).ec;
  } else {
    node->literal = Expression::Literal::real;
    error = std::from_chars(begin, end, node->real).ec;
  }
  if (error != std::errc{}) {
    raise("line {}: the number {} is out of range", token.line, quote(token.text));
  }
  return node;
}

ExpressionPtr ExpressionParser::parenthesised() {
  take();
  if (skip_op(")")) {
    return make(Kind::tuple, {});
  }
  ExpressionPtr node = tuple();
  expect_op(")");
  return node;
}

ExpressionPtr ExpressionParser::list() {
  take();
  std::vector<ExpressionPtr> items;
  while (!skip_op("]")) {
    if (!items.empty()) {
      expect_op(",");
      if (skip_op("]")) {
        break;
      }
    }
    items.push_back(expression());
  }
  return make(Kind::list, std::move(items));
}

ExpressionPtr ExpressionParser::dict() {
  take();
  std::vector<ExpressionPtr> items;
  while (!skip_op("}")) {
    if (!items.empty()) {
      expect_op(",");
      if (skip_op("}")) {
        break;
      }
    }
    items.push_back(expression());
    expect_op(":");
    items.push_back(expression());
  }
  return make(Kind::dict, std::move(items));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      node = subscript(std::move(node));
    } else if (is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (is_op("|")) {
      node = filter(std::move(node));
    } else if (is_name("is")) {
      node = test(std::move(node));
    } else if (is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr node) {
  if (take().text == ".") {
    if (is(Token::Kind::integer)) {
      ExpressionPtr index = number();
      return make(Kind::item, nodes(std::move(node), std::move(index)));
    }
    std::string name = expect_name();
    return make(Kind::attribute, nodes(std::move(node)), std::move(name));
  }
  ExpressionPtr parts[3];
  int colons = 0;
  while (!is_op("]")) {
    if (skip_op(":")) {
      if (++colons > 2) {
        unexpected("']'");
      }
    } else if (parts[colons] != nullptr) {
      unexpected("']'");
    } else {
      parts[colons] = expression();
    }
  }
  if (colons == 0 && parts[0] == nullptr) {
    unexpected("an index");
  }
  take();
  if (colons == 0) {
    return make(Kind::item, nodes(std::move(node), std::move(parts[0])));
  }
  return make(Kind::slice, nodes(std::move(node), std::move(parts[0]), std::move(parts[1]),
                                 std::move(parts[2])));
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(Kind::call, nodes(std::move(callee)));
  node->arguments = arguments();
  measure(*node);
  return node;
}

Arguments ExpressionParser::arguments() {
  Arguments all;
  expect_op("(");
  for (bool first = true; !skip_op(")"); first = false) {
    if (!first) {
      expect_op(",");
      if (skip_op(")")) {
        break;
      }
    }
    if (skip_op("*")) {
      all.rest = expression();
    } else if (skip_op("**")) {
      all.named_rest = expression();
    } else if (is(Token::Kind::name) && is_op(next(), "=")) {
      std::string name = take().text;
      take();
      all.named.emplace_back(std::move(name), expression());
    } else {
      if (!all.named.empty()) {
        unexpected("a named argument");
      }
      all.positional.push_back(expression());
    }
  }
  return all;
}

ExpressionPtr ExpressionParser::first_filter() { return filters(named_filter(nullptr)); }

ExpressionPtr ExpressionParser::filter(ExpressionPtr input) {
  expect_op("|");
  return named_filter(std::move(input));
}

ExpressionPtr ExpressionParser::named_filter(ExpressionPtr input) {
  std::string name = expect_name();
  ExpressionPtr node = make(Kind::filter, nodes(std::move(input)), std::move(name));
  if (is_op("(")) {
    node->arguments = arguments();
    measure(*node);
  }
  return node;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input) {
  while (is_op("|")) {
    input = filter(std::move(input));
  }
  return input;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  take();
  const bool negated = skip_name("not");
  std::string name = expect_name();
  ExpressionPtr node = make(Kind::test, nodes(std::move(input)), std::move(name));
  const bool operand = is(Token::Kind::name) || is(Token::Kind::string) ||
                       is(Token::Kind::integer) || is(Token::Kind::real) || is_op("[") ||
                       is_op("{");
  if (is_op("(")) {
    node->arguments = arguments();
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) {
      raise("line {}: two tests in a row need 'and' between them", current().line);
    }
    if (!is_name("if") && !is_name("not") && !is_name("in")) {
      node->arguments.positional.push_back(postfix(primary()));
    }
  }
  measure(*node);
  return negated ? make(Kind::unary, nodes(std::move(node)), "not") : std::move(node);
}

}  // namespace heed::text::jinja
