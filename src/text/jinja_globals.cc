#include <array>
#include <ctime>

#include "base/utf8.h"
#include "text/jinja_interpreter.h"

namespace heed::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as the sandbox of the reference has it

}  // namespace

Value Interpreter::call_global(const std::string& name, const CallArguments& arguments) {
  if (name == "namespace") {
    return make_namespace(arguments);
  }
  if (name == "range") {
    return range(arguments);
  }
  if (name == "strftime_now") {
    return strftime_now(arguments);
  }
  if (name == "raise_exception") {
    raise("{}", to_text(budget_, arguments.at(0, "message", name)));
  }
  std::vector<std::pair<Value, Value>> items;
  if (const Value* source = arguments.find(0, "")) {
    if (!source->is_dict()) {
      raise("dict() needs a dictionary, not a value of type {}", source->type_name());
    }
    items = source->dict().items;
  }
  for (const auto& [key, value] : arguments.named) {
    items.emplace_back(make_string(budget_, key), value);
  }
  return make_dict(budget_, std::move(items));
}

Value Interpreter::make_namespace(const CallArguments& arguments) {
  constexpr uint64_t kBytes = 64;
  NamespaceObject space;
  const auto set = [&](const std::string& name, const Value& value) {
    budget_.step(1 + space.attributes.size() / 16);
    budget_.allocate(sizeof(space.attributes[0]) + name.size());
    if (Value* place = space.find(name)) {
      *place = value;
    } else {
      space.attributes.emplace_back(name, value);
    }
  };
  if (!arguments.positional.empty() && arguments.positional[0].is_dict()) {
    for (const auto& [key, value] : arguments.positional[0].dict().items) {
      set(to_text(budget_, key), value);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    set(name, value);
  }
  budget_.allocate(kBytes);
  namespaces_.push_back(std::move(space));
  return &namespaces_.back();
}

Value Interpreter::range(const CallArguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3) {
    raise("range() takes 1 to 3 numbers");
  }
  std::array<int64_t, 3> bounds{0, 0, 1};
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].is_integer()) {
      raise("range() needs whole numbers, not a value of type {}", given[i].type_name());
    }
    bounds[given.size() == 1 ? 1 : i] = given[i].integer();
  }
  const auto [begin, end, step] = bounds;
  if (step == 0) {
    raise("range() with a step of 0");
  }
  std::vector<Value> items;
  __extension__ using Wide = __int128;  // `end` plus a step may leave 64 bits
  for (Wide i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      raise("range() of more than {} numbers", kMaxRange);
    }
    items.emplace_back(static_cast<int64_t>(i));
  }
  return make_list(budget_, std::move(items));
}

Value Interpreter::strftime_now(const CallArguments& arguments) {
  const Value& format = arguments.at(0, "format", "strftime_now");
  if (!format.is_string() || format.text().size() > 256) {
    raise("strftime_now() needs a format of at most 256 bytes");
  }
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now_);
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) {
    raise("strftime_now(): the time is not known");
  }
  std::array<char, 4096> buffer{};
  const size_t n = std::strftime(buffer.data(), buffer.size(), format.text().c_str(), &local);
  return make_string(budget_, std::string(buffer.data(), n));
}

}  // namespace heed::text::jinja
