#include <fmt/format.h>

#include <memory>

#include "base/check.h"
#include "heed/alignment.h"
#include "heed/command.h"
#include "heed/generation_options.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "heed/print_generated.h"
#include "io/json_writer.h"

namespace heed::app::translate_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter;
  std::vector<std::string> texts;
  int64_t batch = 16;
  std::string source_lang, target_lang;
  std::string alignment;
  int64_t alignment_layer = -1;
  BeamOptions beam;
  std::string early_stopping = "false", kv_type = "f32";
};

constexpr int64_t kReadAhead = 16;  // batches read at once, so that like lengths go together

std::string plain_text(const Options& options, const std::vector<ScoredText>& found) {
  std::string text;
  for (const ScoredText& each : found) {
    text += options.beam.n_best == 1 ? std::string() : fmt::format("{:.4f}\t", each.score);
    text += each.text;
    if (!options.alignment.empty()) {
      text += " ||| " + (options.alignment == "hard" ? hard_alignment(each.alignment)
                                                     : alignment_text(each.alignment));
    }
    text += "\n";
  }
  return text;
}

std::string json_text(const Tokenizer& tokenizer, const Options& options, const std::string& source,
                      const std::vector<ScoredText>& found, const std::string& error) {
  JsonWriter line;
  line.begin_object().field("text", source);
  if (!error.empty()) {
    line.field("error", error);
  }
  if (!options.alignment.empty()) {
    line.field("source_tokens", tokenizer.encode(source).tokens);
  }
  line.key("translations").begin_array();
  for (const ScoredText& each : found) {
    line.begin_object().field("text", each.text);
    line.field("score", each.score).field("ids", each.ids);
    if (options.alignment == "hard") {
      line.field("alignment", hard_alignment(each.alignment));
    } else if (options.alignment == "soft") {
      line.field("alignment", each.alignment);
    }
    line.end_object();
  }
  return line.end_array().end_object().take() + "\n";
}

int run(const Options& options, const Common& common) {
  const Translation translate(options.model, {.tokenizer = options.tokenizer,
                                              .load = {.kv_type = dtype_from_name(options.kv_type),
                                                       .adapter = options.adapter}});
  TranslationOptions wanted{.beam = options.beam,
                            .source_lang = options.source_lang,
                            .target_lang = options.target_lang,
                            .return_alignment = !options.alignment.empty(),
                            .alignment_layer = options.alignment_layer};
  wanted.beam.early_stopping = early_stopping_from_name(options.early_stopping);
  Lines lines(options.texts, options.batch * kReadAhead, common);
  lines.for_each([&](const std::vector<std::string>& texts) {
    wanted.run = lines.run(options.batch);
    const auto results = translate(texts, wanted);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (common.json) {
        print(
            json_text(translate.loaded().tokenizer, options, texts[i], results[i], lines.error(i)));
      } else {
        print_generated(plain_text(options, results[i]));
      }
    }
  });
  return lines.exit_code();
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of an encoder-decoder")
      .required()
      .file();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table.add("--batch", &o->batch, "Lines per batch").range(1, 1024);
  add_kv_type(table, o->kv_type);
  table.add("--source-lang", &o->source_lang,
            "Language of the texts, as a multilingual model names it: eng_Latn, en_XX, en");
  table.add("--target-lang", &o->target_lang, "Language to translate into, named likewise");
  table.group("Search");
  table.add("--beam-size", &o->beam.beams, "Beams; 1 is greedy").range(1, 64);
  table.add("--n-best", &o->beam.n_best, "Translations per line, with scores").range(1, 64);
  table.add("--length-penalty", &o->beam.length_penalty, "Values above 0 favour longer texts");
  add_early_stopping(table, o->early_stopping);
  table.add("--max-tokens", &o->beam.max_tokens, "Maximum number of tokens per translation")
      .range(1, 1 << 20);
  table.group("Alignment");
  table
      .add("--alignment", &o->alignment,
           "Which source token each token came from, behind |||: pairs source-target, or weights")
      .choices({"hard", "soft"});
  table
      .add("--alignment-layer", &o->alignment_layer,
           "Cross-attention of this layer, from 0 (default: the last but one)")
      .range(0, 1000);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"translate",
     "Translate lines with an encoder-decoder",
     {"heed translate run --text \"A man sits on a bench.\"",
      "heed translate run --beam-size 4 < input.en > output.de",
      "heed translate nllb/ --source-lang eng_Latn --target-lang kor_Hang --text Hello"},
     setup}};

}  // namespace
}  // namespace heed::app::translate_command
