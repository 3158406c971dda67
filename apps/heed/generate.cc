#include "heed/generate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/check.h"
#include "heed/command.h"
#include "heed/io.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer, prompt;
  bool has_prompt = false, echo = false, log_probabilities = false;
  Sampling sampling;
  int64_t max_tokens = 128, samples = 1, batch = 1;
  std::vector<std::string> stops;
};

/// One text on its way: tokens come in, text goes out.
struct Running {
  Running(const Opened& opened, const Options& options, std::string prompt_text)
      : prompt(std::move(prompt_text)), stream(opened.tokenizer, options.stops) {}

  std::string prompt;
  TextStream stream;
  std::string text;
  std::vector<int64_t> ids;
  std::vector<double> log_probabilities;
  FinishReason reason = FinishReason::length;
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

void print_json(const Running& running, const Options& options, int64_t sample) {
  JsonWriter line;
  line.begin_object().field("prompt", running.prompt).field("sample", sample);
  line.field("text", running.text).field("ids", running.ids);
  line.field("finish", std::string_view(name_of(running.reason)));
  if (options.log_probabilities) {
    line.field("log_probabilities", running.log_probabilities);
  }
  print_now(line.end_object().take() + "\n");
}

Request make_request(const Opened& opened, const Options& options, const std::string& prompt,
                     uint64_t sample) {
  Request request;
  for (const int32_t id : opened.tokenizer.encode_ids(prompt, true)) {
    request.prompt.push_back(id);
  }
  if (request.prompt.empty() && opened.tokenizer.special().bos) {
    request.prompt.push_back(*opened.tokenizer.special().bos);
  } else if (request.prompt.empty() && opened.tokenizer.special().eos) {
    request.prompt.push_back(*opened.tokenizer.special().eos);
  }
  request.sampling = options.sampling;
  request.stream = sample;
  request.max_tokens = options.max_tokens;
  apply_generation_tokens(*opened.model, request);
  return request;
}

/// Runs all prompts, `batch` at a time; results come in order, the first of them streamed.
void run_prompts(const Opened& opened, const Options& options, const Common& common,
                 const std::vector<std::string>& prompts) {
  const bool live = !common.json && prompts.size() == 1 && options.samples == 1;
  std::vector<std::unique_ptr<Running>> all;
  Scheduler scheduler(*opened.model, options.batch);
  for (const std::string& prompt : prompts) {
    for (int64_t sample = 0; sample < options.samples; ++sample) {
      all.push_back(std::make_unique<Running>(opened, options, prompt));
      Running& running = *all.back();
      Request request = make_request(opened, options, prompt, static_cast<uint64_t>(sample));
      const std::vector<int64_t> end = request.end;
      request.on_token = [&running, live, end](const SampledToken& choice) {
        running.ids.push_back(choice.id);
        running.log_probabilities.push_back(choice.log_probability);
        if (std::find(end.begin(), end.end(), choice.id) == end.end()) {
          const std::string text = running.stream.push(choice.id);
          running.text += text;
          if (live) {
            print_now(text);
          }
        }
        return !running.stream.stopped();
      };
      scheduler.add(std::move(request), [&running, live](FinishReason reason) {
        running.reason = reason;
        const std::string text = running.stream.finish();
        running.text += text;
        if (live) {
          // The text itself, byte for byte; a terminal gets its line ended.
          print_now(isatty(STDOUT_FILENO) != 0 ? text + "\n" : text);
        }
      });
    }
  }
  if (live && options.echo) {
    print_now(prompts.front());
  }
  scheduler.run();
  for (size_t i = 0; i < all.size(); ++i) {
    if (common.json) {
      print_json(*all[i], options, static_cast<int64_t>(i) % options.samples);
    } else if (!live) {
      print((options.echo ? all[i]->prompt : std::string()) + all[i]->text + "\n");
    }
  }
}

int run(const Options& options, const Common& common) {
  options.sampling.check();
  // Many tokens are worth a copy of the weights, which takes about as long as two or three.
  constexpr int64_t kMany = 256;
  const bool many = !options.has_prompt || options.max_tokens * options.samples >= kMany;
  const Opened opened = open_model(options.model, options.tokenizer,
                                   LoadOptions{.trainable = false, .in_memory = many});
  const ModelKind kind = opened.model->kind();
  check_suits(kind == ModelKind::decoder || kind == ModelKind::encoder_decoder, "generate",
              *opened.model, "use a decoder (gpt2, llama, or one trained with --task lm)");
  std::vector<std::string> prompts;
  if (options.has_prompt) {
    prompts.push_back(options.prompt);
  } else {
    for_each_line([&](const std::string& line) { prompts.push_back(line); });
  }
  run_prompts(opened, options, common, prompts);
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder, run folder, .gguf or llama2.c .bin").required();
  Option& prompt =
      table.add("--prompt", &o->prompt, "Text to go on from (default: lines of stdin)");
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, where none lies with the model").file();
  table.add("--max-tokens", &o->max_tokens, "Tokens to generate").range(0, 1 << 24);
  table.add("--n", &o->samples, "Samples of each prompt").range(1, 1024);
  table.add("--batch", &o->batch, "Sequences that decode together").range(1, 1024);
  table.add("--stop", &o->stops, "Text that ends a sequence; may be given several times");
  table.add("--echo", &o->echo, "Print the prompt in front");
  table.add("--log-probabilities", &o->log_probabilities, "With --json: of each token");
  table.group("Sampling");
  table.add("--temperature", &o->sampling.temperature, "0 is greedy");
  table.add("--top-k", &o->sampling.top_k, "Only the k best tokens; 0: all");
  table.add("--top-p", &o->sampling.top_p, "The best tokens with this probability together");
  table.add("--min-p", &o->sampling.min_p, "At least this share of the best token's probability");
  table.add("--repetition-penalty", &o->sampling.repetition_penalty, "Above 1: fewer repetitions");
  table.add("--seed", &o->sampling.seed, "The same seed gives the same text");
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
}  // namespace heed::app
