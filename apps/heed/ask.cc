#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/check.h"
#include "base/language.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/io.h"
#include "heed/language.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "heed/print_generated.h"
#include "heed/retrieval.h"
#include "io/json_writer.h"

namespace heed::app::ask_command {
namespace {

struct Options {
  std::string index, question, model, tokenizer, adapter, encoder, query_model, rerank;
  std::string mode = "hybrid", reader = "prompt", language;
  bool show_attention = false;
  int64_t top_k = 5, max_tokens = 256, passage_tokens = 250, beams = 4;
  std::vector<std::string> stops;
  Sampling sampling;
};

std::string place_of(const SearchResult& result) {
  std::string place = result.source;
  place += result.location.empty() ? "" : ", " + result.location;
  return printable(place + (result.title.empty() ? "" : " · " + result.title));
}

/// A bar of eighths of a character: `fraction` of `width` characters.
std::string bar_of(double fraction, int width) {
  constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::lround(std::min(1.0, fraction) * width * 8));
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) {
    bar += "█";
  }
  return bar + kEighths[static_cast<size_t>(eighths % 8)];
}

/// `others`: whether the sources' attention is part of a whole.
void print_sources(const Answer& answer, bool attention, bool others) {
  double largest = 0.0;
  for (const AnswerSource& source : answer.sources) {
    largest = std::max(largest, source.attention);
  }
  print(attention ? tell("\nSources, with the attention the answer paid to them:\n")
                  : tell("\nSources:\n"));
  for (const AnswerSource& source : answer.sources) {
    print(fmt::format("[{}] {}\n", source.number, place_of(source.result)));
    if (attention) {
      print(fmt::format("    {:5.1f} % {}\n", source.attention * 100,
                        bar_of(largest > 0 ? source.attention / largest : 0.0, 40)));
    }
  }
  if (attention && others) {
    print(tell("    {:5.1f} % instructions, question and the answer itself\n",
               answer.other_attention * 100));
  }
}

void print_json(const Answer& answer, const Options& options) {
  JsonWriter json;
  json.begin_object().field("question", options.question).field("answer", answer.text);
  json.field("prompt_tokens", answer.prompt_tokens).field("answer_tokens", answer.answer_tokens);
  json.key("sources").begin_array();
  for (const AnswerSource& source : answer.sources) {
    json.begin_object().field("number", source.number).field("source", source.result.source);
    json.field("location", source.result.location).field("title", source.result.title);
    json.field("score", source.result.score).field("text", source.result.text);
    if (options.show_attention) {
      json.field("attention", source.attention);
    }
    json.end_object();
  }
  json.end_array();
  if (options.show_attention) {
    json.field("other_attention", answer.other_attention);
  }
  print(json.end_object().take() + "\n");
}

Answer answer_of(SearchIndex& index, const Options& options, AskOptions ask_options) {
  if (options.reader == "rag") {  // two tokenizers, in folders of their own
    const std::filesystem::path folder = options.model;
    const Opened opened = open_model(options.model, options.tokenizer.empty()
                                                        ? folder / "generator_tokenizer"
                                                        : std::filesystem::path(options.tokenizer));
    const Tokenizer questions = Tokenizer::load(folder / "question_encoder_tokenizer");
    return ask_rag(index, *opened.model, questions, opened.tokenizer, options.question, ask_options,
                   options.beams);
  }
  const Opened opened = open_model(options.model, options.tokenizer, {.adapter = options.adapter});
  if (options.reader == "fid") {
    return ask_fid(index, *opened.model, opened.tokenizer, options.question, ask_options,
                   options.passage_tokens);
  }
  if (const auto chat =
          ChatTemplate::find(find_model(base_model_path(find_model(options.model))))) {
    ask_options.render = chat_renderer(*chat);
  }
  return ask(index, *opened.model, opened.tokenizer, options.question, ask_options);
}

int run(const Options& options, const Common& common) {
  OpenIndexOptions open;
  open.model = options.encoder;
  open.query_model = options.query_model;
  open.reranker = options.rerank;
  SearchIndex index = SearchIndex::open(options.index, open);
  AskOptions ask_options;
  ask_options.search.mode = parse_search_mode(options.mode);
  ask_options.search.top_k = options.top_k;
  ask_options.sampling = options.sampling;
  ask_options.max_tokens = options.max_tokens;
  ask_options.stops = options.stops;
  ask_options.attention = options.show_attention;
  if (!common.json) {
    ask_options.on_text = [](std::string_view text) { print_generated(text); };
  }
  const Answer answer = answer_of(index, options, ask_options);
  if (common.json) {
    print_json(answer, options);
  } else {
    print("\n");
    if (!common.quiet) {
      print_sources(answer, options.show_attention, options.reader == "prompt");
    }
  }
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("INDEX", &o->index, "Index file that `heed index` made").required().file();
  table.add("QUESTION", &o->question, "What to answer from the index").required();
  table.add("--model", &o->model, "Language model: a folder, run folder, .gguf or .bin")
      .required()
      .file();
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table.add("--top-k,-k", &o->top_k, "Sources to put into the prompt").range(1, 100);
  table.add("--mode", &o->mode, "dense (meaning), lexical (words, BM25) or hybrid (both)")
      .choices({"dense", "lexical", "hybrid"});
  table.add("--rerank", &o->rerank, "Cross-encoder that orders the sources: a model folder").file();
  table.add("--encoder", &o->encoder, "Encoder of the index, if it has moved").file();
  table.add("--show-attention", &o->show_attention, "Show how much attention each source received");
  table.add("--query-model", &o->query_model, "Encoder of questions, if it is another one (DPR)")
      .file();
  table
      .add("--reader", &o->reader,
           "prompt: all sources in one prompt; fid: each read by itself, fused in the decoder; "
           "rag: a model of type rag")
      .choices({"prompt", "fid", "rag"});
  table
      .add("--passage-tokens", &o->passage_tokens,
           "With --reader fid: maximum number of tokens per passage")
      .range(16, 8192);
  table.add("--beam-size", &o->beams, "With --reader rag: beams").range(1, 64);
  table.add("--max-tokens", &o->max_tokens, "Maximum number of tokens of the answer")
      .range(1, 1 << 20);
  table.add("--stop", &o->stops, "Text that ends the answer; may be given several times");
  table.add("--lang", &o->language, "Language (default: by the locale)").choices({"en", "ko"});
  table.group("Sampling");
  table.add("--temperature", &o->sampling.temperature, "0 is greedy");
  table.add("--top-p", &o->sampling.top_p,
            "Sample from the smallest set of tokens with this total probability");
  table.add("--seed", &o->sampling.seed, "The same seed gives the same text");
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{{"ask",
                                  "Answer a question from an index, with numbered sources",
                                  {"heed ask notes.heed-index \"What is FiD?\" --model qwen.gguf",
                                   "heed ask notes.heed-index \"역사를 요약하면?\" --model "
                                   "qwen.gguf --show-attention --lang ko"},
                                  setup}};

}  // namespace
}  // namespace heed::app::ask_command
