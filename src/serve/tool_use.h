#pragma once

#include "serve/text_run.h"
#include "serve/tool_calls.h"

namespace heed::serve {

/// Which functions the answer of a request may call.
struct ToolUse {
  std::vector<std::string> names;  ///< empty: no calls are looked for
  bool one_call = false;           ///< at most one

  ToolAnswer take_apart(const std::string& text) const;
};

/// Reads `tools`, `tool_choice` and `parallel_tool_calls`, as /v1/chat/completions and
/// /v1/responses write them; a call that must come becomes the plan's constraint. Throws
/// BadRequest.
ToolUse read_tool_use(const Call& call, GenerationPlan& plan);

}  // namespace heed::serve
