#include "serve/tool_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/constraint.h"

namespace heed::serve {
namespace {

/// The name of {"function": {"name"}}, or of {"name"} as /v1/responses has it; empty where there
/// is none.
std::string function_name(const Json& value) {
  if (!value.is_object()) {
    return {};
  }
  const auto nested = value.find("function");
  const Json function = nested && nested->is_object() ? *nested : value;
  const auto name = function.find("name");
  return name && name->is_string() ? name->string() : "";
}

std::vector<std::string> function_names(const Call& call) {
  std::vector<std::string> names;
  for (const Json& tool : call.body->at("tools").elements()) {
    if (tool.string("type") != "function") {
      throw BadRequest(fmt::format("'tools' has one of type {}; this server knows functions only",
                                   tool.at("type").dump()),
                       "tools");
    }
    names.push_back(function_name(tool));
    if (names.back().empty()) {
      throw BadRequest("'tools' has a function without a name", "tools");
    }
  }
  return names;
}

/// What `tool_choice` says: the function that must be called, and whether one must be at all.
struct Choice {
  std::string forced;
  bool required = false, none = false;
};

Choice read_choice(const Call& call, const std::vector<std::string>& names) {
  Choice choice;
  if (!call.has("tool_choice")) {
    return choice;
  }
  const Json given = call.body->at("tool_choice");
  const std::string word = given.is_string() ? given.string() : "";
  choice.forced = function_name(given);
  if (choice.forced.empty() && word != "none" && word != "auto" && word != "required") {
    throw BadRequest("'tool_choice' must be auto, none, required or a function", "tool_choice");
  }
  if (!choice.forced.empty() &&
      std::find(names.begin(), names.end(), choice.forced) == names.end()) {
    throw BadRequest(
        fmt::format("'tool_choice' names {}, which is not among the tools", choice.forced),
        "tool_choice");
  }
  choice.required = !choice.forced.empty() || word == "required";
  choice.none = word == "none";
  return choice;
}

}  // namespace

ToolAnswer ToolUse::take_apart(const std::string& text) const {
  if (names.empty()) {
    return {text, {}};
  }
  ToolAnswer answer = parse_tool_calls(text, names);
  if (one_call && answer.calls.size() > 1) {
    answer.calls.resize(1);
  }
  return answer;
}

ToolUse read_tool_use(const Call& call, GenerationPlan& plan) {
  ToolUse use;
  if (!call.has("tools")) {
    return use;
  }
  use.names = function_names(call);
  use.one_call = !call.flag("parallel_tool_calls");
  const Choice choice = read_choice(call, use.names);
  if (choice.none) {
    use.names.clear();
  }
  if (choice.required && !use.names.empty()) {
    if (plan.constraint) {
      throw BadRequest("a required tool call and a form of the answer exclude each other",
                       "tool_choice");
    }
    const std::string tools = tools_as_written(call.exchange->request().body);
    plan.constraint = schema_constraint(call, tool_call_schema(tools, choice.forced), "tools");
  }
  return use;
}

}  // namespace heed::serve
