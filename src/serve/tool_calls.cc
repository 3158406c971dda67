#include "serve/tool_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/trimmed.h"

namespace heed::serve {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr std::string_view kCalls = "[TOOL_CALLS]";
constexpr std::string_view kFunction = "<function=", kFunctionEnd = "</function>";
constexpr std::string_view kPython = "<|python_tag|>";

std::optional<OrderedJson> parse(std::string_view text) {
  OrderedJson value = OrderedJson::parse(text, nullptr, false);
  return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
}

bool known(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// {"name", "arguments"} or {"name", "parameters"}, possibly inside {"function": …}.
bool add_call(const OrderedJson& value, const std::vector<std::string>& names,
              std::vector<ToolCall>& calls) {
  if (!value.is_object()) {
    return false;
  }
  if (value.contains("function") && value["function"].is_object()) {
    return add_call(value["function"], names, calls);
  }
  if (!value.contains("name") || !value["name"].is_string() ||
      !known(names, value["name"].get<std::string>())) {
    return false;
  }
  const char* key = value.contains("arguments") ? "arguments" : "parameters";
  OrderedJson arguments = value.contains(key) ? value[key] : OrderedJson::object();
  // Some models write the arguments as a string of JSON.
  const bool text = arguments.is_string();
  calls.push_back({value["name"], text ? arguments.get<std::string>() : arguments.dump()});
  return true;
}

/// A call, or a list of them; nothing where any part of it is something else.
std::optional<std::vector<ToolCall>> calls_of(std::string_view text,
                                              const std::vector<std::string>& names) {
  const std::optional<OrderedJson> value = parse(trimmed(text));
  if (!value) {
    return std::nullopt;
  }
  std::vector<ToolCall> calls;
  bool good = true;
  if (value->is_array()) {
    for (const OrderedJson& item : *value) {
      good = good && add_call(item, names, calls);
    }
  } else {
    good = add_call(*value, names, calls);
  }
  return good && !calls.empty() ? std::optional(std::move(calls)) : std::nullopt;
}

void append(ToolAnswer& answer, std::vector<ToolCall> calls) {
  answer.calls.insert(answer.calls.end(), std::make_move_iterator(calls.begin()),
                      std::make_move_iterator(calls.end()));
}

/// The text between two marks; the second may be missing at the end of an answer.
struct Block {
  std::string_view before, inside, after;
};
std::optional<Block> block(std::string_view text, std::string_view open, std::string_view close) {
  const size_t begin = text.find(open);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(begin + open.size());
  const size_t end = close.empty() ? std::string_view::npos : rest.find(close);
  const bool closed = end != std::string_view::npos;
  return Block{text.substr(0, begin), rest.substr(0, end),
               closed ? rest.substr(end + close.size()) : std::string_view()};
}

/// <function=NAME>{…}</function>
bool take_function(const Block& found, const std::vector<std::string>& names, ToolAnswer& answer) {
  const size_t close = found.inside.find('>');
  if (close == std::string_view::npos) {
    return false;
  }
  const std::string name(found.inside.substr(0, close));
  const auto arguments = parse(trimmed(found.inside.substr(close + 1)));
  if (!known(names, name) || !arguments || !arguments->is_object()) {
    return false;
  }
  answer.calls.push_back({name, arguments->dump()});
  return true;
}

}  // namespace

ToolAnswer parse_tool_calls(std::string_view text, const std::vector<std::string>& names) {
  ToolAnswer answer;
  std::string_view rest = text;
  while (true) {
    const auto function = block(rest, kFunction, kFunctionEnd);
    if (function && take_function(*function, names, answer)) {
      answer.content += function->before;
      rest = function->after;
      continue;
    }
    const auto call = block(rest, kCall, kCallEnd);
    const auto list = call ? std::nullopt : block(rest, kCalls, {});
    const auto& found = call ? call : list;
    auto calls = found ? calls_of(found->inside, names) : std::nullopt;
    if (!calls) {
      break;
    }
    append(answer, std::move(*calls));
    answer.content += found->before;
    rest = found->after;
  }
  std::string_view whole = trimmed(rest);
  if (whole.starts_with(kPython)) {
    whole.remove_prefix(kPython.size());
  }
  if (auto calls = answer.calls.empty() ? calls_of(whole, names) : std::nullopt) {
    append(answer, std::move(*calls));
    return answer;
  }
  answer.content += rest;
  answer.content = answer.calls.empty() ? answer.content : std::string(trimmed(answer.content));
  return answer;
}

size_t shown_before_call(std::string_view text) {
  // An answer that begins as JSON may be a call as a whole.
  const std::string_view start = trimmed(text);
  if (start.empty() || start[0] == '{' || start[0] == '[') {
    return 0;
  }
  size_t shown = text.size();
  for (const std::string_view mark : {kCall, kCalls, kFunction, kPython}) {
    shown = std::min(shown, text.find(mark));
    for (size_t length = std::min(mark.size() - 1, text.size()); length > 0; --length) {
      if (text.ends_with(mark.substr(0, length))) {
        shown = std::min(shown, text.size() - length);
        break;
      }
    }
  }
  return std::min(shown, text.size());
}

std::string tools_as_written(const std::string& body) {
  const OrderedJson request = OrderedJson::parse(body);
  OrderedJson tools = OrderedJson::array();
  for (const OrderedJson& tool : request.at("tools")) {
    if (tool.contains("function") || !tool.contains("name")) {
      tools.push_back(tool);
      continue;
    }
    OrderedJson function = tool;
    function.erase("type");
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return tools.dump();
}

std::string tool_call_schema(const std::string& tools, const std::string& forced) {
  OrderedJson choices = OrderedJson::array();
  for (const OrderedJson& tool : OrderedJson::parse(tools)) {
    const OrderedJson function = tool.value("function", OrderedJson::object());
    const OrderedJson name = function.value("name", OrderedJson());
    if (!forced.empty() && name != forced) {
      continue;
    }
    OrderedJson parameters = function.value("parameters", OrderedJson::object());
    if (!parameters.is_object() || parameters.empty()) {
      parameters = {{"type", "object"}};
    }
    choices.push_back({{"type", "object"},
                       {"properties", {{"name", {{"const", name}}}, {"arguments", parameters}}},
                       {"required", {"name", "arguments"}},
                       {"additionalProperties", false}});
  }
  return choices.size() == 1 ? choices[0].dump() : OrderedJson{{"anyOf", choices}}.dump();
}

}  // namespace heed::serve
