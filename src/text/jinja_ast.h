#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace heed::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

/// Arguments of a call, a filter or a test.
struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr rest;        ///< *rest
  ExpressionPtr named_rest;  ///< **named_rest
};

struct Expression {
  enum class Kind {
    literal,      ///< literal_*
    name,         ///< text
    list,         ///< children
    tuple,        ///< children
    dict,         ///< children: key, value, key, value, …
    attribute,    ///< children[0] . text
    item,         ///< children[0] [ children[1] ]
    slice,        ///< children[0] [ children[1] : children[2] : children[3] ]; null where left out
    call,         ///< children[0] ( arguments )
    filter,       ///< children[0] | text ( arguments ); children[0] is null in {% filter %}
    test,         ///< children[0] is text ( arguments )
    unary,        ///< text children[0]
    binary,       ///< children[0] text children[1]
    comparison,   ///< children[0] operators[0] children[1] operators[1] children[2] …
    concat,       ///< children joined with ~
    logical_and,  ///< children[0], children[1]
    logical_or,
    conditional,  ///< children[1] if children[0] else children[2], which may be null
  };
  Kind kind;
  int line;
  uint32_t depth = 1;
  std::string text;
  std::vector<ExpressionPtr> children;
  std::vector<std::string> operators;
  Arguments arguments;
  enum class Literal { none, boolean, integer, real, string } literal = Literal::none;
  int64_t integer = 0;  ///< also a boolean
  double real = 0.0;
};

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;
using Block = std::vector<StatementPtr>;

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  ///< may be null
};

/// What a value is assigned to: a name, several names, or an attribute of a namespace.
struct Target {
  std::vector<std::string> names;
  bool unpack = false;    ///< several names, or one with a comma after it
  std::string attribute;  ///< of the namespace names[0]; empty where there is none
};

struct Statement {
  enum class Kind {
    text,          ///< text
    print,         ///< expression
    set,           ///< target = expression
    set_block,     ///< target = what body renders, through the filters of expression (may be null)
    branch,        ///< conditions[i] → blocks[i]; one block more is the else
    loop,          ///< target, expression, condition, body, otherwise, recursive
    macro,         ///< text (parameters) body
    call_block,    ///< expression is a call; body and parameters are its caller()
    filter_block,  ///< what body renders, through the filters of expression
    with,          ///< targets, conditions: their values; body
    generation,    ///< body
    leave_loop,    ///< break
    next_loop,     ///< continue
  };
  Kind kind;
  int line;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  std::vector<ExpressionPtr> conditions;
  std::vector<Block> blocks;
  std::vector<Target> targets;
  std::vector<Parameter> parameters;
  Block body;
  Block otherwise;
  bool recursive = false;
};

}  // namespace heed::text::jinja
