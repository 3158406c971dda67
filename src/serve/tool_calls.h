#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::serve {

/// A function that the model wants to be called; `arguments` is a JSON object.
struct ToolCall {
  std::string name, arguments;
};

/// A model's answer, taken apart.
struct ToolAnswer {
  std::string content;  ///< what is no call
  std::vector<ToolCall> calls;
};

/// Finds the calls in a model's answer, in the forms that common templates teach:
/// <tool_call>{"name", "arguments"}</tool_call> (Hermes, Qwen), [TOOL_CALLS][{…}] (Mistral),
/// <function=NAME>{…}</function> and {"name", "parameters"} alone (Llama 3). Only calls of the
/// functions in `names` count; everything else is content.
ToolAnswer parse_tool_calls(std::string_view text, const std::vector<std::string>& names);

/// How many bytes of an answer that is still being written can be shown: what may become a call is
/// held back.
size_t shown_before_call(std::string_view text);

/// The `tools` of a request's JSON in the order of its members, each as /v1/chat/completions has
/// them: {"type": "function", "function": {"name", …}}. /v1/responses has the name one level up.
std::string tools_as_written(const std::string& body);

/// The JSON schema of an answer that must be a call: of `forced` where it is not empty, else of any
/// function of `tools`, a list as tools_as_written() gives it.
std::string tool_call_schema(const std::string& tools, const std::string& forced);

}  // namespace heed::serve
