#include "text/jinja_parser.h"

#include "base/utf8.h"

namespace heed::text::jinja {
namespace {

using Kind = Statement::Kind;

constexpr int kMaxBlockDepth = 60;
constexpr size_t kMaxSource = size_t{1} << 20;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : in_(std::move(tokens)) {}

  Block run() { return block({}); }

 private:
  static StatementPtr make(Kind kind, int line) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  /// Statements up to a tag with one of `ends`, which is left with its name as current token.
  Block block(const std::vector<std::string_view>& ends) {
    if (++depth_ > kMaxBlockDepth) {
      raise("line {}: blocks are nested deeper than {} levels", in_.current().line, kMaxBlockDepth);
    }
    Block all;
    while (!in_.is(Token::Kind::end)) {
      const int line = in_.current().line;
      if (in_.is(Token::Kind::text)) {
        all.push_back(make(Kind::text, line));
        all.back()->text = in_.take().text;
      } else if (in_.is(Token::Kind::print_begin)) {
        in_.take();
        all.push_back(make(Kind::print, line));
        all.back()->expression = in_.tuple();
        in_.expect(Token::Kind::print_end, "}}");
      } else {
        in_.expect(Token::Kind::block_begin, "{%");
        for (const std::string_view end : ends) {
          if (in_.is_name(end)) {
            --depth_;
            return all;
          }
        }
        all.push_back(statement());
        in_.expect(Token::Kind::block_end, "%}");
      }
    }
    if (!ends.empty()) {
      in_.unexpected(quote(ends.back()));
    }
    --depth_;
    return all;
  }

  /// The rest of the opening tag, a body, and the name of the closing tag.
  Block body_until(std::string_view end) {
    in_.expect(Token::Kind::block_end, "%}");
    Block body = block({end});
    in_.take();
    return body;
  }

  /// The same for a body that runs elsewhere: a loop around it is not its own.
  Block called_body(std::string_view end) {
    const int outer = std::exchange(loops_, 0);
    Block body = body_until(end);
    loops_ = outer;
    return body;
  }

  StatementPtr statement() {
    const int line = in_.current().line;
    const std::string name = in_.expect_name();
    if (name == "set") {
      return set(line);
    }
    if (name == "if") {
      return branch(line);
    }
    if (name == "for") {
      return loop(line);
    }
    if (name == "macro") {
      StatementPtr macro = make(Kind::macro, line);
      macro->text = in_.expect_name();
      macro->parameters = parameters();
      macro->body = called_body("endmacro");
      in_.skip_name(macro->text);
      return macro;
    }
    if (name == "call") {
      return call_block(line);
    }
    if (name == "filter") {
      return filter_block(line);
    }
    if (name == "with") {
      return with(line);
    }
    if (name == "generation") {
      StatementPtr node = make(Kind::generation, line);
      node->body = body_until("endgeneration");
      return node;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) {
        raise("line {}: '{}' outside of a loop", line, name);
      }
      return make(name == "break" ? Kind::leave_loop : Kind::next_loop, line);
    }
    raise("line {}: the tag {} is not known here", line, quote(name));
  }

  Target target() {
    Target all;
    const bool parentheses = in_.skip_op("(");
    all.names.push_back(in_.expect_name());
    if (in_.skip_op(".")) {
      all.attribute = in_.expect_name();
      return all;
    }
    while (in_.skip_op(",")) {
      all.unpack = true;
      if (!in_.is(Token::Kind::name) || in_.is_name("in")) {
        break;
      }
      all.names.push_back(in_.expect_name());
    }
    if (parentheses) {
      in_.expect_op(")");
    }
    return all;
  }

  StatementPtr set(int line) {
    StatementPtr node = make(Kind::set, line);
    node->targets.push_back(target());
    if (in_.skip_op("=")) {
      node->expression = in_.tuple();
      return node;
    }
    node->kind = Kind::set_block;
    node->expression = in_.filters(nullptr);
    node->body = body_until("endset");
    return node;
  }

  StatementPtr branch(int line) {
    StatementPtr node = make(Kind::branch, line);
    while (true) {
      node->conditions.push_back(in_.tuple(false));
      in_.expect(Token::Kind::block_end, "%}");
      node->blocks.push_back(block({"elif", "else", "endif"}));
      const std::string end = in_.take().text;
      if (end == "endif") {
        return node;
      }
      if (end == "else") {
        node->blocks.push_back(body_until("endif"));
        return node;
      }
    }
  }

  StatementPtr loop(int line) {
    StatementPtr node = make(Kind::loop, line);
    node->targets.push_back(target());
    if (!in_.skip_name("in")) {
      in_.unexpected("'in'");
    }
    node->expression = in_.tuple(false);
    if (in_.skip_name("if")) {
      node->condition = in_.expression();
    }
    node->recursive = in_.skip_name("recursive");
    in_.expect(Token::Kind::block_end, "%}");
    ++loops_;
    node->body = block({"else", "endfor"});
    --loops_;
    if (in_.take().text == "else") {
      node->otherwise = body_until("endfor");
    }
    return node;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    in_.expect_op("(");
    while (!in_.skip_op(")")) {
      if (!all.empty()) {
        in_.expect_op(",");
      }
      Parameter parameter;
      parameter.name = in_.expect_name();
      if (in_.skip_op("=")) {
        parameter.otherwise = in_.expression();
      }
      all.push_back(std::move(parameter));
    }
    return all;
  }

  StatementPtr call_block(int line) {
    StatementPtr node = make(Kind::call_block, line);
    if (in_.is_op("(")) {
      node->parameters = parameters();
    }
    node->expression = in_.expression();
    if (node->expression->kind != Expression::Kind::call) {
      raise("line {}: {{% call %}} needs a call of a macro", line);
    }
    node->body = called_body("endcall");
    return node;
  }

  StatementPtr filter_block(int line) {
    StatementPtr node = make(Kind::filter_block, line);
    node->expression = in_.first_filter();
    node->body = body_until("endfilter");
    return node;
  }

  StatementPtr with(int line) {
    StatementPtr node = make(Kind::with, line);
    while (!in_.is(Token::Kind::block_end)) {
      if (!node->targets.empty()) {
        in_.expect_op(",");
      }
      node->targets.push_back(target());
      in_.expect_op("=");
      node->conditions.push_back(in_.expression());
    }
    node->body = body_until("endwith");
    return node;
  }

  ExpressionParser in_;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Block parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    raise("has {} bytes; at most {} are read", source.size(), kMaxSource);
  }
  return StatementParser(tokenize(source)).run();
}

}  // namespace heed::text::jinja
