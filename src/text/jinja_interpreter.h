#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/text.h"
#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace heed::text::jinja {

/// Variables of a block; lookups go on in the parent.
struct Scope {
  std::shared_ptr<Scope> parent;
  uint32_t depth;
  std::vector<std::pair<std::string, Value>> variables;
  Reserved reserved;
};
using ScopeRef = std::shared_ptr<Scope>;

/// A macro, or the body of a {% call %} block.
struct Macro {
  const Statement* node;
  std::string name;
  ScopeRef scope;  ///< where it was defined
};

/// Runs one template once.
class Interpreter {
 public:
  Interpreter(Budget& budget, std::chrono::system_clock::time_point now);

  void define(const std::string& name, Value value);
  /// Renders; `generated` gets the bytes of the output that came from {% generation %} blocks.
  std::string run(const Block& block, std::vector<TextSpan>& generated);
  /// The line of what was run last, for errors.
  int line() const { return line_; }

 private:
  enum class Flow { normal, leave_loop, next_loop };
  class Deeper;

  ScopeRef child_of(const ScopeRef& parent);
  void assign(const std::string& name, Value value);
  void assign(const Target& target, Value value);
  Value lookup(const std::string& name);
  void emit(std::string_view text);
  /// What `fn` renders, as a string.
  std::string capture(const std::function<void()>& fn);

  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow branch(const Statement& statement);
  Flow with(const Statement& statement);
  void set_block(const Statement& statement);
  void call_block(const Statement& statement);
  void filter_block(const Statement& statement);
  Flow generation(const Statement& statement);
  Flow loop(const Statement& statement, const Value& iterable, uint32_t depth);
  std::vector<Value> loop_items(const Statement& statement, const Value& iterable);
  const Macro* add_macro(const Statement& statement, std::string name);
  Value macro_value(const Macro* macro) const;

  Value evaluate(const Expression& expression);
  Value evaluate_literal(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_comparison(const Expression& expression);
  Value evaluate_unary(const Expression& expression);
  Value evaluate_filter(const Expression& expression, const Value* input);
  Value evaluate_test(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value evaluate_call(const Expression& expression, const Macro* caller);
  std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& expressions);
  CallArguments evaluate_arguments(const Arguments& arguments);

  Value call(const Value& callee, CallArguments arguments);
  Value call_macro(const Macro& macro, CallArguments arguments);
  Value call_global(const std::string& name, const CallArguments& arguments);
  Value call_loop(const LoopObject& loop, const CallArguments& arguments);
  Value loop_attribute(const LoopRef& state, const std::string& name);
  Value call_loop_method(LoopObject& loop, const std::string& name, const CallArguments& arguments);
  Value make_namespace(const CallArguments& arguments);
  Value range(const CallArguments& arguments);
  Value strftime_now(const CallArguments& arguments);

  Budget& budget_;
  std::chrono::system_clock::time_point now_;
  std::deque<Macro> macros_;
  std::deque<NamespaceObject> namespaces_;
  ScopeRef scope_;
  TextBuilder output_;
  TextBuilder* out_ = &output_;
  std::vector<TextSpan>* generated_ = nullptr;
  uint32_t depth_ = 0;
  int line_ = 1;
};

}  // namespace heed::text::jinja
