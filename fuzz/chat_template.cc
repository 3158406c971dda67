#include "fuzz/target.h"
#include "heed/text.h"

/// Any bytes as a Jinja template, rendered for a conversation with tools under small limits.
HEED_FUZZ_TARGET(chat_template) {
  using namespace heed;
  static constexpr std::string_view kMessages =
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Grüße, 세계"},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function":
           {"name": "f", "arguments": {"a": 1, "b": [true, null, 2.5]}}}]},
          {"role": "tool", "content": [{"type": "text", "text": "t"}]}])";
  fuzz::expect_error_or_success([&] {
    ChatOptions options;
    options.add_generation_prompt = true;
    options.tools = R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])";
    options.now = std::chrono::system_clock::from_time_t(0);
    options.max_steps = 20'000;
    options.max_memory = uint64_t{4} << 20;
    options.max_output = uint64_t{1} << 20;
    const auto chat = ChatTemplate::from_text(input);
    chat.mentions("tools");
    if (chat.render(kMessages, options).size() > options.max_output) {
      std::abort();
    }
  });
}
