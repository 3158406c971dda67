#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "heed/alignment.h"
#include "heed/command.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer;
  std::vector<std::string> texts;
  int64_t batch = 16;
  std::string alignment;
  int64_t alignment_layer = -1;
  BeamOptions beam;
};

constexpr int64_t kReadAhead = 16;  // batches read at once, so that like lengths go together

std::string text_of(const Opened& opened, const Hypothesis& hypothesis) {
  const std::vector<int32_t> ids(hypothesis.ids.begin(), hypothesis.ids.end());
  return opened.tokenizer.decode(ids, true);
}

/// One line's translations and, where asked for, how their tokens lie to the source's.
struct Translated {
  std::vector<Hypothesis> found;
  std::vector<std::vector<std::vector<double>>> alignments;
};

std::string plain_text(const Opened& opened, const Options& options, const Translated& result) {
  std::string text;
  for (size_t i = 0; i < result.found.size(); ++i) {
    const Hypothesis& hypothesis = result.found[i];
    text += options.beam.n_best == 1 ? std::string() : fmt::format("{:.4f}\t", hypothesis.score);
    text += text_of(opened, hypothesis);
    if (!options.alignment.empty()) {
      text += " ||| " + (options.alignment == "hard" ? hard_alignment(result.alignments[i])
                                                     : alignment_text(result.alignments[i]));
    }
    text += "\n";
  }
  return text;
}

std::string json_text(const Opened& opened, const Options& options, const std::string& source,
                      const Translated& result) {
  JsonWriter line;
  line.begin_object().field("text", source);
  if (!options.alignment.empty()) {
    line.field("source_tokens", opened.tokenizer.encode(source).tokens);
  }
  line.key("translations").begin_array();
  for (size_t i = 0; i < result.found.size(); ++i) {
    const Hypothesis& hypothesis = result.found[i];
    line.begin_object().field("text", text_of(opened, hypothesis));
    line.field("score", hypothesis.score).field("ids", hypothesis.ids);
    if (options.alignment == "hard") {
      line.field("alignment", hard_alignment(result.alignments[i]));
    } else if (options.alignment == "soft") {
      line.field("alignment", result.alignments[i]);
    }
    line.end_object();
  }
  return line.end_array().end_object().take() + "\n";
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t") == std::string::npos;
}

/// Lines of like length together, results in the order of the lines.
std::vector<Translated> translate(const Opened& opened, const Options& options,
                                  const std::vector<std::string>& texts) {
  const GenerationTokens ids = generation_tokens(*opened.model);
  Request rules;
  rules.max_tokens = options.beam.max_tokens;
  apply_generation_tokens(*opened.model, rules);
  std::vector<Request> requests(texts.size(), rules);
  std::vector<size_t> order;
  std::vector<Translated> results(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (is_blank(texts[i]) && opened.tokenizer.encode_ids(texts[i], true).empty()) {
      results[i] = {{Hypothesis()}, {{}}};  // a line for a line
      continue;
    }
    requests[i].encoder = encode_texts(opened, {texts[i]}).input;
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return requests[a].encoder.input_ids.numel() < requests[b].encoder.input_ids.numel();
  });
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(options.batch)) {
    const size_t end = std::min(order.size(), begin + static_cast<size_t>(options.batch));
    std::vector<Request> together;
    for (size_t i = begin; i < end; ++i) {
      together.push_back(requests[order[i]]);
    }
    auto found = beam_search(*opened.model, together, options.beam);
    for (size_t i = begin; i < end; ++i) {
      Translated& result = results[order[i]];
      result.found = std::move(found[i - begin]);
      for (const Hypothesis& hypothesis : result.found) {
        if (!options.alignment.empty()) {
          result.alignments.push_back(soft_alignment(*opened.model, requests[order[i]].encoder,
                                                     ids.decoder_start, hypothesis.ids,
                                                     options.alignment_layer));
        }
      }
    }
  }
  return results;
}

int run(const Options& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer);
  check_suits(opened.model->kind() == ModelKind::encoder_decoder, "translate", *opened.model,
              "use an encoder-decoder (marian, t5, or one trained with --task translate)");
  const bool typed = options.texts.empty() && isatty(STDIN_FILENO) != 0;
  const int64_t lines = typed ? 1 : options.batch * kReadAhead;
  for_each_batch(options.texts, lines, [&](const std::vector<std::string>& texts) {
    const std::vector<Translated> results = translate(opened, options, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      print(common.json ? json_text(opened, options, texts[i], results[i])
                        : plain_text(opened, options, results[i]));
    }
  });
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of an encoder-decoder")
      .required()
      .file();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, where none lies with the model").file();
  table.add("--batch", &o->batch, "Lines that are translated together").range(1, 1024);
  table.group("Search");
  table.add("--beam-size", &o->beam.beams, "Beams; 1 is greedy").range(1, 64);
  table.add("--n-best", &o->beam.n_best, "Translations of each line, with their scores")
      .range(1, 64);
  table.add("--length-penalty", &o->beam.length_penalty, "Above 0: longer is better");
  table.add("--max-tokens", &o->beam.max_tokens, "Most tokens of a translation").range(1, 1 << 20);
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

const Registration kRegistration{{"translate",
                                  "Translate lines with an encoder-decoder",
                                  {"heed translate run --text \"A man sits on a bench.\"",
                                   "heed translate run --beam-size 4 < input.en > output.de"},
                                  setup}};

}  // namespace
}  // namespace heed::app
