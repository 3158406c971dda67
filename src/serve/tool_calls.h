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

/// The JSON schema of an answer that must be a call: of `forced` where it is not empty, else of any
/// function. `body` is the request's JSON with its `tools`.
std::string tool_call_schema(const std::string& body, const std::string& forced);

}  // namespace heed::serve
