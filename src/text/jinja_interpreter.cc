#include "text/jinja_interpreter.h"

#include <algorithm>

#include "base/utf8.h"

namespace heed::text::jinja {
namespace {

using Kind = Statement::Kind;

constexpr uint32_t kMaxScopes = 300;
constexpr uint64_t kScopeBytes = 160;
constexpr uint64_t kMacroBytes = 160;

}  // namespace

/// Counts how deep the interpreter is in its own recursion.
class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& in) : in_(in) {
    in_.budget_.step();
    if (++in_.depth_ > in_.budget_.limits().depth) {
      --in_.depth_;
      raise("recurses deeper than {} levels", in_.budget_.limits().depth);
    }
  }
  ~Deeper() { --in_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Interpreter& in_;
};

Interpreter::Interpreter(Budget& budget, std::chrono::system_clock::time_point now)
    : budget_(budget), now_(now), output_(budget) {
  scope_ = child_of(nullptr);
}

ScopeRef Interpreter::child_of(const ScopeRef& parent) {
  const uint32_t depth = parent != nullptr ? parent->depth + 1 : 0;
  if (depth > kMaxScopes) {
    raise("nests more than {} scopes", kMaxScopes);
  }
  return ScopeRef(new Scope{parent, depth, {}, Reserved(budget_, kScopeBytes)});
}

void Interpreter::define(const std::string& name, Value value) { assign(name, std::move(value)); }

void Interpreter::assign(const std::string& name, Value value) {
  for (auto& [known, place] : scope_->variables) {
    if (known == name) {
      place = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(name, std::move(value));
}

void Interpreter::assign(const Target& target, Value value) {
  if (!target.attribute.empty()) {
    const Value owner = lookup(target.names[0]);
    const auto* space = owner.get<NamespaceObject*>();
    if (space == nullptr) {
      raise("cannot assign an attribute of {}, which is not a namespace", quote(target.names[0]));
    }
    if (Value* place = (*space)->find(target.attribute)) {
      *place = std::move(value);
    } else {
      budget_.allocate(sizeof(std::pair<std::string, Value>) + target.attribute.size());
      (*space)->attributes.emplace_back(target.attribute, std::move(value));
    }
    return;
  }
  if (!target.unpack) {
    assign(target.names[0], std::move(value));
    return;
  }
  std::vector<Value> items = iterate(budget_, value);
  if (items.size() != target.names.size()) {
    raise("{} values cannot be assigned to {} names", items.size(), target.names.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    assign(target.names[i], std::move(items[i]));
  }
}

Value Interpreter::lookup(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) {
        return value;
      }
    }
  }
  static constexpr std::string_view kGlobals[] = {"range", "dict", "namespace", "raise_exception",
                                                  "strftime_now"};
  if (std::find(std::begin(kGlobals), std::end(kGlobals), name) != std::end(kGlobals)) {
    return CallableRef(new CallableObject{CallableObject::Kind::global, name, Value(), nullptr});
  }
  return make_undefined(budget_, name);
}

void Interpreter::emit(std::string_view text) {
  if (out_ == &output_ && text.size() > budget_.limits().output - out_->size()) {
    raise("renders more than {} bytes", budget_.limits().output);
  }
  out_->append(text);
}

std::string Interpreter::capture(const std::function<void()>& fn) {
  TextBuilder builder(budget_);
  TextBuilder* outer = std::exchange(out_, &builder);
  try {
    fn();
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return builder.take();
}

std::string Interpreter::run(const Block& block, std::vector<TextSpan>& generated) {
  generated_ = &generated;
  execute(block);
  return output_.take();
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const StatementPtr& statement : block) {
    const Flow flow = execute(*statement);
    if (flow != Flow::normal) {
      return flow;
    }
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const Deeper deeper(*this);
  line_ = statement.line;
  switch (statement.kind) {
    case Kind::text:
      emit(statement.text);
      break;
    case Kind::print:
      emit(to_text(budget_, evaluate(*statement.expression)));
      break;
    case Kind::set:
      assign(statement.targets[0], evaluate(*statement.expression));
      break;
    case Kind::set_block:
      set_block(statement);
      break;
    case Kind::branch:
      return branch(statement);
    case Kind::loop:
      return loop(statement, evaluate(*statement.expression), 0);
    case Kind::macro:
      assign(statement.text, macro_value(add_macro(statement, statement.text)));
      break;
    case Kind::call_block:
      call_block(statement);
      break;
    case Kind::filter_block:
      filter_block(statement);
      break;
    case Kind::with:
      return with(statement);
    case Kind::generation:
      return generation(statement);
    case Kind::leave_loop:
      return Flow::leave_loop;
    case Kind::next_loop:
      return Flow::next_loop;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::branch(const Statement& statement) {
  for (size_t i = 0; i < statement.conditions.size(); ++i) {
    if (truthy(evaluate(*statement.conditions[i]))) {
      return execute(statement.blocks[i]);
    }
  }
  return statement.blocks.size() > statement.conditions.size() ? execute(statement.blocks.back())
                                                               : Flow::normal;
}

Interpreter::Flow Interpreter::with(const Statement& statement) {
  std::vector<Value> values = evaluate_all(statement.conditions);
  const ScopeRef outer = std::exchange(scope_, child_of(scope_));
  for (size_t i = 0; i < values.size(); ++i) {
    assign(statement.targets[i], std::move(values[i]));
  }
  const Flow flow = execute(statement.body);
  scope_ = outer;
  return flow;
}

void Interpreter::set_block(const Statement& statement) {
  const ScopeRef outer = std::exchange(scope_, child_of(scope_));
  std::string text = capture([&] { execute(statement.body); });
  scope_ = outer;
  Value value = make_string(budget_, std::move(text));
  if (statement.expression != nullptr) {
    value = evaluate_filter(*statement.expression, &value);
  }
  assign(statement.targets[0], std::move(value));
}

void Interpreter::filter_block(const Statement& statement) {
  const ScopeRef outer = std::exchange(scope_, child_of(scope_));
  std::string text = capture([&] { execute(statement.body); });
  scope_ = outer;
  const Value input = make_string(budget_, std::move(text));
  emit(to_text(budget_, evaluate_filter(*statement.expression, &input)));
}

void Interpreter::call_block(const Statement& statement) {
  const Macro* caller = add_macro(statement, "caller");
  emit(to_text(budget_, evaluate_call(*statement.expression, caller)));
}

Interpreter::Flow Interpreter::generation(const Statement& statement) {
  const bool at_root = out_ == &output_;
  const auto begin = static_cast<int64_t>(out_->size());
  const ScopeRef outer = std::exchange(scope_, child_of(scope_));
  const Flow flow = execute(statement.body);
  scope_ = outer;
  if (at_root) {
    generated_->push_back({begin, static_cast<int64_t>(out_->size())});
  }
  return flow;
}

std::vector<Value> Interpreter::loop_items(const Statement& statement, const Value& iterable) {
  std::vector<Value> items = iterate(budget_, iterable);
  if (statement.condition == nullptr) {
    return items;
  }
  std::vector<Value> kept;
  const ScopeRef outer = scope_;
  for (Value& item : items) {
    scope_ = child_of(outer);
    assign(statement.targets[0], item);
    if (truthy(evaluate(*statement.condition))) {
      kept.push_back(std::move(item));
    }
  }
  scope_ = outer;
  return kept;
}

Interpreter::Flow Interpreter::loop(const Statement& statement, const Value& iterable,
                                    uint32_t depth) {
  const ScopeRef outer = scope_;
  const Value items = make_list(budget_, loop_items(statement, iterable));
  const auto state = std::make_shared<LoopObject>();
  state->items = *items.get<ListRef>();
  state->depth = depth;
  if (statement.recursive) {
    state->node = &statement;
    state->scope = outer;
  }
  const size_t count = state->items->items.size();
  for (size_t i = 0; i < count; ++i) {
    budget_.step();
    scope_ = child_of(outer);
    state->index = i;
    assign(statement.targets[0], state->items->items[i]);
    assign("loop", Value(state));
    if (execute(statement.body) == Flow::leave_loop) {
      break;
    }
  }
  scope_ = outer;
  if (count == 0 && !statement.otherwise.empty()) {
    scope_ = child_of(outer);
    const Flow flow = execute(statement.otherwise);
    scope_ = outer;
    return flow;
  }
  return Flow::normal;
}

const Macro* Interpreter::add_macro(const Statement& statement, std::string name) {
  budget_.allocate(kMacroBytes);
  macros_.push_back({&statement, std::move(name), scope_});
  return &macros_.back();
}

Value Interpreter::macro_value(const Macro* macro) const {
  return CallableRef(new CallableObject{CallableObject::Kind::macro, macro->name, Value(), macro});
}

Value Interpreter::evaluate(const Expression& expression) {
  using E = Expression::Kind;
  const Deeper deeper(*this);
  line_ = expression.line;
  const auto child = [&](size_t i) { return evaluate(*expression.children[i]); };
  switch (expression.kind) {
    case E::literal:
      return evaluate_literal(expression);
    case E::name:
      return lookup(expression.text);
    case E::list:
      return make_list(budget_, evaluate_all(expression.children));
    case E::tuple:
      return make_list(budget_, evaluate_all(expression.children), ListObject::Kind::tuple);
    case E::dict:
      return evaluate_dict(expression);
    case E::attribute: {
      const Value owner = child(0);
      const auto* loop = owner.get<LoopRef>();
      return loop != nullptr ? loop_attribute(*loop, expression.text)
                             : get_attribute(budget_, owner, expression.text);
    }
    case E::item: {
      const Value owner = child(0);
      return get_item(budget_, owner, child(1));
    }
    case E::slice:
      return evaluate_slice(expression);
    case E::call:
      return evaluate_call(expression, nullptr);
    case E::filter:
      return evaluate_filter(expression, nullptr);
    case E::test:
      return evaluate_test(expression);
    case E::unary:
      return evaluate_unary(expression);
    case E::binary: {
      const Value left = child(0);
      return binary(budget_, expression.text, left, child(1));
    }
    case E::comparison:
      return evaluate_comparison(expression);
    case E::concat: {
      TextBuilder out(budget_);
      for (const Value& part : evaluate_all(expression.children)) {
        out.append(to_text(budget_, part));
      }
      return make_string(budget_, out.take());
    }
    case E::logical_and: {
      Value left = child(0);
      return truthy(left) ? child(1) : left;
    }
    case E::logical_or: {
      Value left = child(0);
      return truthy(left) ? left : child(1);
    }
    case E::conditional:
      if (truthy(child(0))) {
        return child(1);
      }
      return expression.children[2] != nullptr ? child(2) : Value();
  }
  return Value();
}

}  // namespace heed::text::jinja
