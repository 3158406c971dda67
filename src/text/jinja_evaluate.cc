#include <algorithm>
#include <ctime>

#include "base/utf8.h"
#include "text/jinja_interpreter.h"

namespace heed::text::jinja {

Value Interpreter::evaluate_literal(const Expression& expression) {
  switch (expression.literal) {
    case Expression::Literal::none:
      return None{};
    case Expression::Literal::boolean:
      return expression.integer != 0;
    case Expression::Literal::integer:
      return expression.integer;
    case Expression::Literal::real:
      return expression.real;
    case Expression::Literal::string:
      break;
  }
  return make_string(budget_, expression.text);
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions) {
    values.push_back(evaluate(*expression));
  }
  return values;
}

Value Interpreter::evaluate_dict(const Expression& expression) {
  std::vector<Value> parts = evaluate_all(expression.children);
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    items.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
  }
  return make_dict(budget_, std::move(items));
}

Value Interpreter::evaluate_slice(const Expression& expression) {
  const Value owner = evaluate(*expression.children[0]);
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (expression.children[i + 1] != nullptr) {
      bounds[i] = evaluate(*expression.children[i + 1]);
      given[i] = bounds[i].is_none() ? nullptr : &bounds[i];
    }
  }
  return get_slice(budget_, owner, given[0], given[1], given[2]);
}

Value Interpreter::evaluate_unary(const Expression& expression) {
  const Value value = evaluate(*expression.children[0]);
  if (expression.text == "not") {
    return !truthy(value);
  }
  if (const auto* number = value.get<double>()) {
    return expression.text == "-" ? -*number : *number;
  }
  if (!value.is_integer()) {
    raise("{} needs a number, not a value of type {}", expression.text, value.type_name());
  }
  return expression.text == "-" ? binary(budget_, "-", Value(int64_t{0}), value)
                                : Value(value.integer());
}

Value Interpreter::evaluate_comparison(const Expression& expression) {
  Value left = evaluate(*expression.children[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const std::string& op = expression.operators[i];
    Value right = evaluate(*expression.children[i + 1]);
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = equal(budget_, left, right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(budget_, right, left) == (op == "in");
    } else {
      const int order = compare(budget_, left, right);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) {
      return false;
    }
    left = std::move(right);
  }
  return true;
}

/// `input` stands for the value at the beginning of a chain of filters that has none of its own.
Value Interpreter::evaluate_filter(const Expression& expression, const Value* input) {
  const ExpressionPtr& source = expression.children[0];
  const Value value = source == nullptr ? *input
                      : input != nullptr && source->kind == Expression::Kind::filter
                          ? evaluate_filter(*source, input)
                          : evaluate(*source);
  const CallArguments arguments = evaluate_arguments(expression.arguments);
  line_ = expression.line;
  return apply_filter(budget_, expression.text, value, arguments);
}

Value Interpreter::evaluate_test(const Expression& expression) {
  const Value value = evaluate(*expression.children[0]);
  return apply_test(budget_, expression.text, value, evaluate_arguments(expression.arguments));
}

CallArguments Interpreter::evaluate_arguments(const Arguments& arguments) {
  CallArguments all;
  all.positional = evaluate_all(arguments.positional);
  if (arguments.rest != nullptr) {
    for (Value& item : iterate(budget_, evaluate(*arguments.rest))) {
      all.positional.push_back(std::move(item));
    }
  }
  for (const auto& [name, expression] : arguments.named) {
    all.named.emplace_back(name, evaluate(*expression));
  }
  if (arguments.named_rest != nullptr) {
    const Value rest = evaluate(*arguments.named_rest);
    if (!rest.is_dict()) {
      raise("** needs a dictionary, not a value of type {}", rest.type_name());
    }
    for (const auto& [key, value] : rest.dict().items) {
      all.named.emplace_back(to_text(budget_, key), value);
    }
  }
  budget_.step(all.positional.size() + all.named.size());
  return all;
}

Value Interpreter::evaluate_call(const Expression& expression, const Macro* caller) {
  const Value callee = evaluate(*expression.children[0]);
  CallArguments arguments = evaluate_arguments(expression.arguments);
  if (caller != nullptr) {
    arguments.named.emplace_back("caller", macro_value(caller));
  }
  line_ = expression.line;
  if (callee.is_undefined()) {
    const auto& name = callee.get<Undefined>()->name;
    raise("calls {}, which is undefined", name != nullptr ? quote(name->text) : "a value");
  }
  return call(callee, std::move(arguments));
}

Value Interpreter::call(const Value& callee, CallArguments arguments) {
  if (const auto* loop = callee.get<LoopRef>()) {
    return call_loop(**loop, arguments);
  }
  const auto* callable = callee.get<CallableRef>();
  if (callable == nullptr) {
    raise("'{}' object is not callable", callee.type_name());
  }
  const CallableObject& object = **callable;
  if (object.kind == CallableObject::Kind::macro) {
    return call_macro(*object.macro, std::move(arguments));
  }
  if (object.kind == CallableObject::Kind::global) {
    return call_global(object.name, arguments);
  }
  const Value self = object.self;
  if (const auto* loop = self.get<LoopRef>()) {
    return call_loop_method(**loop, object.name, arguments);
  }
  return call_method(budget_, self, object.name, arguments);
}

Value Interpreter::call_macro(const Macro& macro, CallArguments arguments) {
  const ScopeRef outer = std::exchange(scope_, child_of(macro.scope));
  const auto& parameters = macro.node->parameters;
  std::vector<Value> rest;
  for (size_t i = parameters.size(); i < arguments.positional.size(); ++i) {
    rest.push_back(arguments.positional[i]);
  }
  std::vector<std::pair<Value, Value>> named_rest;
  for (auto& [name, value] : arguments.named) {
    const auto known =
        std::find_if(parameters.begin(), parameters.end(),
                     [&, &wanted = name](const Parameter& p) { return p.name == wanted; });
    if (known == parameters.end() && name != "caller") {
      named_rest.emplace_back(make_string(budget_, name), value);
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value* given = arguments.find(i, parameters[i].name);
    assign(parameters[i].name, given != nullptr ? *given
                               : parameters[i].otherwise != nullptr
                                   ? evaluate(*parameters[i].otherwise)
                                   : make_undefined(budget_, parameters[i].name));
  }
  assign("varargs", make_list(budget_, std::move(rest), ListObject::Kind::tuple));
  assign("kwargs", make_dict(budget_, std::move(named_rest)));
  if (const Value* caller = arguments.find(~size_t{0}, "caller")) {
    assign("caller", *caller);
  }
  std::string text = capture([&] { execute(macro.node->body); });
  scope_ = outer;
  return make_string(budget_, std::move(text));
}

Value Interpreter::call_loop(const LoopObject& loop, const CallArguments& arguments) {
  if (loop.node == nullptr) {
    raise("loop() needs a loop that is marked as recursive");
  }
  const ScopeRef outer = std::exchange(scope_, std::static_pointer_cast<Scope>(loop.scope));
  std::string text = capture([&] {
    this->loop(*static_cast<const Statement*>(loop.node), arguments.at(0, "iterable", "loop"),
               loop.depth + 1);
  });
  scope_ = outer;
  return make_string(budget_, std::move(text));
}

Value Interpreter::loop_attribute(const LoopRef& state, const std::string& name) {
  const LoopObject& loop = *state;
  const auto index = static_cast<int64_t>(loop.index);
  const auto count = static_cast<int64_t>(loop.items->items.size());
  const auto item = [&](int64_t at) {
    return at >= 0 && at < count ? loop.items->items[static_cast<size_t>(at)]
                                 : make_undefined(budget_, "loop." + name);
  };
  if (name == "index" || name == "index0") {
    return index + (name == "index" ? 1 : 0);
  }
  if (name == "revindex" || name == "revindex0") {
    return count - index - (name == "revindex" ? 0 : 1);
  }
  if (name == "first" || name == "last") {
    return name == "first" ? index == 0 : index + 1 == count;
  }
  if (name == "length") {
    return count;
  }
  if (name == "previtem" || name == "nextitem") {
    return item(name == "previtem" ? index - 1 : index + 1);
  }
  if (name == "depth" || name == "depth0") {
    return int64_t{loop.depth} + (name == "depth" ? 1 : 0);
  }
  if (name == "cycle" || name == "changed") {
    return CallableRef(
        new CallableObject{CallableObject::Kind::method, name, Value(state), nullptr});
  }
  return make_undefined(budget_, "loop." + name);
}

Value Interpreter::call_loop_method(LoopObject& loop, const std::string& name,
                                    const CallArguments& arguments) {
  if (name == "cycle") {
    if (arguments.positional.empty()) {
      raise("loop.cycle() needs a value");
    }
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  TextBuilder now(budget_);
  for (const Value& value : arguments.positional) {
    append_repr(now, value);
    now.append(",");
  }
  const bool changed = now.text() != loop.last_changed;
  loop.last_changed = now.take();
  return changed;
}

}  // namespace heed::text::jinja
