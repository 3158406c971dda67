#include "heed/generate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "heed/command.h"
#include "heed/generation_options.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "heed/print_generated.h"
#include "io/json_writer.h"

namespace heed::app::generate_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter, cache, prompt, system, chat_template;
  bool has_prompt = false, echo = false, log_probabilities = false, truncate = false, chat = false;
  int64_t max_tokens = 128, samples = 1, batch = 0;
  std::string kv_type = "f32";
  KvWindow kv_window;
  TextOptions text;
};

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::end_token:
      return "end";
    case FinishReason::stopped:
      return "stop";
    default:
      return "length";
  }
}

void print_json(const std::string& prompt, const GeneratedText& result, const Options& options,
                const std::string& error) {
  JsonWriter line;
  line.begin_object().field("prompt", prompt).field("sample", result.sample);
  if (!error.empty()) {
    line.field("error", error);
  }
  line.field("text", result.text).field("ids", result.ids);
  line.field("finish", std::string_view(name_of(result.finish)));
  if (options.log_probabilities) {
    line.field("log_probabilities", result.log_probabilities);
  }
  print_now(line.end_object().take() + "\n");
}

/// How prompts become tokens: as they are, or as a user's message in the model's chat template.
class Prompts {
 public:
  Prompts(const TextGeneration& generate, const Options& options)
      : generate_(generate), system_(options.system) {
    if (options.chat) {
      template_ = ChatTemplate::load(options.chat_template.empty()
                                         ? generate.loaded().path
                                         : std::filesystem::path(options.chat_template));
    }
  }

  std::vector<TokenId> tokens_of(const std::string& prompt) const {
    if (!template_) {
      return generate_.tokens_of(prompt);
    }
    std::vector<ChatMessage> messages;
    if (!system_.empty()) {
      messages.push_back({"system", system_});
    }
    messages.push_back({"user", prompt});
    return chat_tokens(generate_.loaded().tokenizer, *template_, messages);
  }

 private:
  const TextGeneration& generate_;
  std::string system_;
  std::optional<ChatTemplate> template_;
};

/// One prompt of the command line as plain text, streamed byte for byte; a terminal gets its line
/// ended.
void stream_prompt(const TextGeneration& generate, const Prompts& prompts, const Options& options,
                   const GenerationOptions& wanted) {
  if (options.echo) {
    print_generated(options.prompt);
  }
  generate.from_tokens({prompts.tokens_of(options.prompt)}, wanted,
                       [](size_t, int64_t, std::string_view piece) { print_generated(piece); });
  if (isatty(STDOUT_FILENO) != 0) {
    print_now("\n");
  }
}

GenerationOptions wanted_of(const Options& options, const Tokenizer& tokenizer) {
  constexpr int64_t kSamplesTogether = 16;
  GenerationOptions wanted = generation_options(options.text, tokenizer);
  wanted.max_new_tokens = options.max_tokens;
  wanted.num_return_sequences = options.samples;
  wanted.is_answer = options.chat;
  wanted.truncate = options.truncate;
  wanted.cache_file = options.cache;
  wanted.run.batch_size =
      options.batch > 0 ? options.batch : std::min(options.samples, kSamplesTogether);
  return wanted;
}

int run(const Options& options, const Common& common) {
  if (!options.chat && !(options.system.empty() && options.chat_template.empty())) {
    fail(ErrorKind::usage, "generate", "--system and --chat-template need --chat");
  }
  options.text.sampling.check();
  // Many tokens are worth a copy of the weights, which takes about as long as two or three.
  constexpr int64_t kMany = 256;
  const bool many = !options.has_prompt || options.max_tokens * options.samples >= kMany;
  const TextGeneration generate(options.model,
                                {.tokenizer = options.tokenizer,
                                 .load = {.in_memory = many,
                                          .kv_type = dtype_from_name(options.kv_type),
                                          .kv_window = options.kv_window,
                                          .adapter = options.adapter}});
  const Prompts prompts_of(generate, options);
  GenerationOptions wanted = wanted_of(options, generate.loaded().tokenizer);
  if (options.has_prompt && !common.json && options.samples == 1) {
    stream_prompt(generate, prompts_of, options, wanted);
    return 0;
  }
  std::vector<std::string> texts;
  if (options.has_prompt) {
    texts.push_back(options.prompt);
  }
  // Results come as soon as the lines before them have theirs.
  Lines lines(texts, std::max<int64_t>(options.batch, 1), common);
  lines.for_each([&](const std::vector<std::string>& prompts) {
    wanted.run = lines.run(wanted.run.batch_size);
    std::vector<std::vector<TokenId>> ids(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (options.has_prompt || !is_blank_line(prompts[i])) {
        ids[i] = prompts_of.tokens_of(prompts[i]);
      }
    }
    if (options.has_prompt) {
      wanted.run.on_error = nullptr;  // the error itself
    } else {
      wanted.run.on_error = [&, report = wanted.run.on_error](size_t i, const std::string& why) {
        if (!is_blank_line(prompts[i])) {  // a blank line is answered with a blank line
          report(i, why);
        }
      };
    }
    for (const GeneratedText& result : generate.from_tokens(ids, wanted)) {
      const std::string& prompt = prompts[result.input];
      if (common.json) {
        print_json(prompt, result, options, lines.error(result.input));
      } else {
        print_generated((options.echo ? prompt : std::string()) + result.text + "\n");
      }
    }
  });
  return lines.exit_code();
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder, run folder, .gguf or llama2.c .bin").required();
  Option& prompt = table.add("--prompt", &o->prompt, "Text to continue (default: lines of stdin)");
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table.add("--max-tokens", &o->max_tokens, "Tokens to generate").range(0, 1 << 24);
  table.add("--n", &o->samples, "Samples per prompt").range(1, 1024);
  table
      .add("--batch", &o->batch,
           "Sequences to decode together (default: the samples of a prompt, at most 16)")
      .range(1, 1024);
  add_kv_type(table, o->kv_type);
  add_kv_window(table, o->kv_window);
  table.add("--truncate", &o->truncate,
            "Read only the end of a prompt that is longer than the model's context");
  table
      .add("--cache", &o->cache,
           "Prompt cache: read from this file if it exists, and written to it at the end")
      .file();
  table.add("--echo", &o->echo, "Print the prompt in front");
  table.add("--log-probabilities", &o->log_probabilities,
            "With --json: log-probability of each token");
  table.group("Chat");
  table.add("--chat", &o->chat, "Each prompt is a user's message: answer it by the chat template");
  table.add("--system", &o->system, "With --chat: system message");
  table
      .add("--chat-template", &o->chat_template, "With --chat: a Jinja file instead of the model's")
      .file();
  add_text_options(table, o->text);
  return [o, &prompt, &common] {
    o->has_prompt = prompt.given();
    return run(*o, common);
  };
}

const Registration kRegistration{
    {"generate",
     "Continue a text with a language model",
     {"heed generate run/ --prompt \"To be, or\" --max-tokens 100",
      "heed generate model.gguf --temperature 0.8 --top-p 0.9 --seed 1 "
      "< prompts.txt"},
     setup}};

}  // namespace
}  // namespace heed::app::generate_command
