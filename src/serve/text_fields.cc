#include "serve/route_fields.h"

namespace heed::serve {
namespace {

std::vector<Field> operator+(std::vector<Field> fields, const std::vector<Field>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

/// What all routes that generate text take.
std::vector<Field> sampling_fields() {
  return {
      number_field("temperature", 0, 2, "1", "Randomness; 0 always takes the likeliest token"),
      number_field("top_p", 0, 1, "1", "Only the likeliest tokens with this probability together"),
      integer_field("top_k", 0, 1 << 20, "0", "Only the k likeliest tokens; 0: all"),
      number_field("min_p", 0, 0.999, "0",
                   "Only tokens with at least this fraction of the likeliest one's probability"),
      number_field("typical_p", 0, 1, "1",
                   "Only the tokens nearest to the expected surprise, with this probability"),
      number_field(
          "top_n_sigma", 0, 1000, "0",
          "Sample from logits within this many standard deviations of the best one; 0: all"),
      integer_field("mirostat", 0, 2, "0",
                    "2: Mirostat 2.0, which keeps the surprise per token even; 0: off"),
      number_field("mirostat_tau", 0.01, 100, "5", "Mirostat: target surprise per token, in bits"),
      number_field("mirostat_eta", 0.0001, 1, "0.1", "Mirostat: learning rate"),
      number_field("repetition_penalty", 0.01, 100, "1", "Above 1: fewer repetitions"),
      number_field("frequency_penalty", -2, 2, "0",
                   "Taken off a token's logit for every time it has been generated"),
      number_field("presence_penalty", -2, 2, "0",
                   "Taken off a token's logit once it has been generated"),
      integer_field("no_repeat_ngram_size", 0, 1 << 20, "0",
                    "Never repeat a sequence of this many tokens; 0: off"),
      number_field("dry_multiplier", 0, 100, "0", "DRY: strength of the penalty; 0: off"),
      number_field("dry_base", 1, 100, "1.75", "DRY: growth with the length of the repetition"),
      integer_field("dry_allowed_length", 1, 1 << 20, "2", "DRY: repetitions up to this are free"),
      integer_field("dry_penalty_last_n", -1, 1 << 20, "-1", "DRY: how far it looks back; -1: all"),
      strings_field("dry_sequence_breakers", 64, "DRY: texts that no repetition extends across"),
      number_map_field("logit_bias", -100, 100, 300, "Token ids and what is added to their logits"),
      strings_field("stop", 16, "Texts that end the answer; they are not part of it"),
      string_field("grammar", 1 << 20, "GBNF grammar that the answer must follow"),
      object_field("json_schema", {}, "JSON schema of the answer, which is JSON then"),
      list_field("stop_token_ids", 64, "Token ids that end the answer"),
      integer_field("seed", -kMostSeed, kMostSeed, "-1",
                    "The same seed gives the same answer; -1: a new one each time"),
      boolean_field("stream", "false", "Send the answer piece by piece, as server-sent events"),
      user_field(),
  };
}

/// The same with the defaults of llama.cpp's server, whose clients rely on them.
std::vector<Field> llama_sampling_fields() {
  std::vector<Field> fields = sampling_fields();
  for (Field& field : fields) {
    for (const auto& [name, fallback] :
         {std::pair{"temperature", "0.8"}, {"top_k", "40"}, {"top_p", "0.95"}, {"min_p", "0.05"}}) {
      field.fallback = field.name == name ? fallback : field.fallback;
    }
    if (field.name == "logit_bias") {
      field = any_field("logit_bias", {R"({"type":"object"})", R"({"type":"array"})"},
                        "{token id: number}, or a list of [token id or text, number]");
    }
  }
  return fields;
}

Field stream_options_field() {
  return object_field("stream_options",
                      {boolean_field("include_usage", "false", "A last chunk with the usage")},
                      "Options of a stream");
}

const std::vector<std::string> kToolChoices{R"({"enum":["auto","none","required"]})",
                                            R"({"type":"object"})"};

Field prompt_field() {
  // A list holds texts, ids and lists of ids, or objects with a text.
  return any_field(
             "prompt",
             {R"({"type":"string"})",
              R"({"type":"array","minItems":1,"items":{"type":["string","integer","array","object"]}})",
              R"({"type":"object","required":["prompt_string"]})"},
             "Text, texts, token ids or lists of token ids to go on from; text and ids may be "
             "mixed")
      .must();
}

}  // namespace

Field model_field() {
  return string_field("model", 256,
                      "Name of a model of /v1/models; may be left out where only one fits");
}

Field user_field() { return string_field("user", 256, "An end user, for fairness between them"); }

Field messages_field() {
  return objects_field(
             "messages", kMostTexts,
             {choice_field("role", {"system", "developer", "user", "assistant", "tool", "function"},
                           "", "Who speaks")
                  .must(),
              any_field("content",
                        {R"({"type":"string"})",
                         R"({"type":"array","items":{"type":"object","required":["type","text"],)"
                         R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}}})"},
                        "A text, or a list of parts of type text"),
              string_field("name", 256, "Name of the speaker"),
              list_field("tool_calls", 128, "Calls that the assistant has made"),
              string_field("tool_call_id", 256, "The call that a tool answers")},
             "The conversation so far")
      .at_least(1)
      .must();
}

Field tools_field() {
  return objects_field("tools", 128,
                       {string_field("type", 64, "function").must(),
                        object_field("function", {}, "Name, description and parameters")},
                       "Functions that the model may call; its template shows them to it");
}

Field template_variables_field() {
  return object_field("chat_template_kwargs", {}, "Further variables of the model's template");
}

std::vector<Field> completion_fields() {
  return std::vector<Field>{
             model_field(),
             prompt_field(),
             integer_field("max_tokens", 0, kMostTokens, "16", "Most tokens to generate"),
             integer_field("n", 1, 128, "1", "Answers for each prompt"),
             integer_field("best_of", 0, 128, "0", "Not more than n"),
             boolean_field("echo", "false", "Begin the answer with the prompt"),
             string_field("suffix", kMostText, "Not supported; must be empty"),
             integer_field("logprobs", 0, 20, "",
                           "Show log-probabilities, of so many alternatives, too"),
             stream_options_field(),
         } +
         sampling_fields();
}

std::vector<Field> chat_fields() {
  return std::vector<Field>{
             model_field(),
             messages_field(),
             integer_field("max_tokens", 0, kMostTokens, "-1",
                           "Most tokens to generate; as many as the context holds by default"),
             integer_field("max_completion_tokens", 0, kMostTokens, "-1", "The same as max_tokens"),
             integer_field("n", 1, 128, "1", "Answers"),
             boolean_field("logprobs", "false", "Show the log-probability of every token"),
             integer_field("top_logprobs", 0, 20, "0", "And of so many alternatives"),
             object_field("response_format",
                          {choice_field("type", {"text", "json_object", "json_schema"}, "",
                                        "What the answer must be")
                               .must(),
                           object_field("json_schema", {}, "The schema, under `schema`")},
                          "Form of the answer"),
             tools_field(),
             any_field("tool_choice", kToolChoices,
                       "auto; none leaves the tools out; required, or {\"type\": \"function\", "
                       "\"function\": {\"name\"}}, makes the answer a call"),
             boolean_field("parallel_tool_calls", "true", "false: at most one call"),
             boolean_field("add_generation_prompt", "",
                           "Ends the prompt with the beginning of an answer; true by default"),
             boolean_field("continue_final_message", "false",
                           "The answer continues the last message, which is the assistant's"),
             template_variables_field(),
             stream_options_field(),
             boolean_field("timings_per_token", "false", "Times with every piece of a stream"),
             boolean_field("return_progress", "false", "Events while the prompt is read"),
             boolean_field("verbose", "false", "Show the prompt in `__verbose`"),
         } +
         sampling_fields();
}

std::vector<Field> llama_fields() {
  return std::vector<Field>{
             model_field(),
             prompt_field(),
             integer_field("n_predict", -1, kMostTokens, "-1",
                           "Most tokens to generate; -1: as many as the context holds"),
             boolean_field("ignore_eos", "false", "Go on behind the model's end token"),
             boolean_field("cache_prompt", "true", "Taken and not used: prompts are always shared"),
             integer_field("n_probs", 0, 100, "0", "Show so many likeliest tokens at each step"),
             boolean_field("post_sampling_probs", "false",
                           "Of `n_probs`: probabilities in place of their logarithms"),
             boolean_field("return_tokens", "false", "Show the answer's token ids"),
             strings_field("response_fields", 64, "Only these fields; a/b: b of the object a"),
             boolean_field("timings_per_token", "false", "Times with every piece of a stream"),
             boolean_field("return_progress", "false", "Events while the prompt is read"),
         } +
         llama_sampling_fields();
}

std::vector<Field> responses_fields() {
  return std::vector<Field>{
             model_field(),
             any_field("input",
                       {R"({"type":"string"})",
                        R"({"type":"array","minItems":1,"items":{"type":"object"}})"},
                       "A text, or a list of items: messages, and the function_call and "
                       "function_call_output of functions that were called")
                 .must(),
             string_field("instructions", kMostText,
                          "What the model is told before the conversation"),
             integer_field("max_output_tokens", 0, kMostTokens, "-1", "Most tokens to generate"),
             objects_field("tools", 128,
                           {string_field("type", 64, "function").must(),
                            string_field("name", 256, "Name of the function"),
                            string_field("description", kMostText, "What it does"),
                            object_field("parameters", {}, "JSON schema of its arguments")},
                           "Functions that the model may call; its template shows them to it"),
             any_field("tool_choice", kToolChoices,
                       "auto; none leaves the tools out; required, or {\"type\": \"function\", "
                       "\"name\"}, makes the answer a call"),
             boolean_field("parallel_tool_calls", "true", "false: at most one call"),
             object_field(
                 "text",
                 {object_field("format",
                               {choice_field("type", {"text", "json_object", "json_schema"}, "",
                                             "What the answer must be")
                                    .must(),
                                object_field("schema", {}, "The JSON schema")},
                               "Form of the answer")},
                 "How the text of the answer looks"),
             string_field("previous_response_id", 256, "Not supported: nothing is stored"),
             object_field("metadata", {}, "Comes back with the answer"),
             boolean_field("store", "false", "Taken and not used: nothing is stored"),
             boolean_field("timings_per_token", "false", "Times with every piece of a stream"),
             boolean_field("return_progress", "false", "Events while the prompt is read"),
         } +
         sampling_fields();
}

std::vector<Field> template_fields() {
  return {
      model_field(),
      messages_field(),
      tools_field(),
      template_variables_field(),
      boolean_field("add_generation_prompt", "true", "End with the beginning of an answer"),
      boolean_field("continue_final_message", "false",
                    "The prompt ends with the last message, which is the assistant's"),
  };
}

}  // namespace heed::serve
