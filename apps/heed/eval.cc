#include "heed/eval.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/output_file.h"
#include "heed/data.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "heed/model_options.h"
#include "heed/models.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "heed/progress.h"
#include "heed/tensor.h"
#include "io/json_writer.h"
#include "models/gguf/stored_types.h"
#include "models/registry.h"
#include "train/class_report.h"
#include "train/metric_names.h"

namespace heed::app {
namespace {

std::string text_of(const EvalOptions& options) {
  if (!options.data.empty()) {
    return read_file(options.data);
  }
  std::string text;
  for_each_line([&](const std::string& line) { text += line + "\n"; });
  return text;
}

std::string where(const EvalOptions& options) {
  return options.data.empty() ? "stdin" : options.data;
}

/// The task of `heed train` that a model was made for.
std::string task_of(const Model& model) {
  switch (model.kind()) {
    case ModelKind::decoder:
      return "lm";
    case ModelKind::encoder_decoder:
      return "translate";
    case ModelKind::vision:
      return "image-classify";
    case ModelKind::vision_decoder:
      return "caption";
    case ModelKind::speech_decoder:
      fail(ErrorKind::usage, model.model_type(),
           "there is no evaluation of speech yet; `heed transcribe` writes texts to compare");
    case ModelKind::image_text:
      fail(ErrorKind::usage, model.model_type(),
           "there is no evaluation of images with texts yet; `heed classify --label` says what an "
           "image shows");
    case ModelKind::regressor:
      return "regress";
    case ModelKind::encoder:
      break;
  }
  const ModelHead* head = head_of(model);
  return head != nullptr && head->task == "fill-mask" ? "mlm" : "classify";
}

void print_json(const EvalReport& report, double seconds) {
  JsonWriter line;
  line.begin_object().field("task", report.task);
  for (const auto& [name, value] : report.metrics) {
    line.field(name, value);
  }
  line.field(report.unit, report.examples);
  if (!report.classes.classes.empty()) {
    line.key("classes").begin_array();
    for (size_t i = 0; i < report.labels.size(); ++i) {
      const ClassScore& score = report.classes.classes[i];
      line.begin_object().field("label", report.labels[i]).field("precision", score.precision);
      line.field("recall", score.recall).field("f1", score.f1).field("support", score.support);
      line.end_object();
    }
    line.end_array().key("confusion").begin_array();
    for (const std::vector<int64_t>& row : report.classes.confusion) {
      line.value(row);
    }
    line.end_array();
  }
  print(line.field("seconds", seconds).end_object().take() + "\n");
}

/// The confusion matrix as text: true classes down, predicted ones across.
std::string confusion_text(const EvalReport& report) {
  constexpr size_t kMost = 12;
  if (report.classes.confusion.empty() || report.labels.size() > kMost) {
    return {};
  }
  TerminalOptions options;
  options.width = 100;
  return to_terminal(confusion_map(report.labels, report.classes), options);
}

void print_text(const EvalReport& report, double seconds) {
  std::string line;
  for (const auto& [name, value] : report.metrics) {
    line += fmt::format("{}{} {:.4f}", line.empty() ? "" : "  ", metric_name(name), value);
  }
  print(line + "\n");
  if (!report.classes.classes.empty()) {
    print("\n" + class_table(report.labels, report.classes));
    print("\n" + confusion_text(report));
  }
  print(report.unit == "tokens" ? tell("{} tokens in {:.1f} s\n", report.examples, seconds)
                                : tell("{} examples in {:.1f} s\n", report.examples, seconds));
}

EvalReport evaluate_task(const EvalOptions& options, const Common& common) {
  using Evaluate = EvalReport (*)(const EvalOptions&, const Common&);
  static const std::pair<const char*, Evaluate> kTasks[] = {{"lm", eval_text},
                                                            {"mlm", eval_masked},
                                                            {"classify", eval_classify},
                                                            {"image-classify", eval_image_classify},
                                                            {"translate", eval_translate},
                                                            {"caption", eval_caption},
                                                            {"regress", eval_regress}};
  const std::string task =
      options.task.empty()
          ? task_of(*load_model(find_model(options.model), {.adapter = options.adapter}))
          : options.task;
  if (options.data.empty() && task != "lm" && task != "mlm") {
    fail(ErrorKind::usage, "eval", "task {} needs --data with labelled examples", task);
  }
  if (!options.importance.empty() && task != "lm") {
    fail(ErrorKind::usage, "--imatrix", "is made by a language model; this is task {}", task);
  }
  for (const auto& [name, evaluate] : kTasks) {
    if (task == name) {
      EvalReport report = evaluate(options, common);
      report.task = task;
      return report;
    }
  }
  fail(ErrorKind::usage, "--task", "'{}' is not known", task);
}

int run(const EvalOptions& options, const Common& common) {
  const auto start = std::chrono::steady_clock::now();
  const EvalReport report = evaluate_task(options, common);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  common.json ? print_json(report, seconds) : print_text(report, seconds);
  return 0;
}

}  // namespace

EvalReport eval_text(const EvalOptions& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer, {.adapter = options.adapter});
  const std::string text = text_of(options);
  const std::vector<TokenId> ids = opened.tokenizer.encode_ids(text, true);
  check_data(ids.size() >= 2, where(options), "has {} tokens; at least 2 are needed", ids.size());
  ProgressBar bar(tell("reading"), common, say("tokens"));
  const auto all = static_cast<int64_t>(ids.size());
  std::optional<gguf::ImportanceCollector> importance;
  if (!options.importance.empty()) {
    check_can_write(options.importance);
    importance.emplace(*opened.model);
  }
  const Perplexity result = perplexity(*opened.model, ids, options.context, options.stride,
                                       [&](int64_t done) { bar(done, all); });
  if (importance) {
    importance->write(options.importance, where(options), result.context);
  }
  EvalReport report;
  report.unit = "tokens";
  report.examples = result.tokens;
  report.metrics = {{"perplexity", result.value()},
                    {"loss", result.loss},
                    {"bits_per_byte", result.loss * static_cast<double>(result.tokens) /
                                          std::log(2.0) / static_cast<double>(text.size())}};
  return report;
}

EvalReport eval_masked(const EvalOptions& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer, {.adapter = options.adapter});
  const Model& model = *opened.model;
  const SpecialTokens& special = opened.tokenizer.special();
  check_data(special.mask.has_value(), options.model, "has no [MASK] token, which task mlm needs");
  Masking masking;
  masking.mask = *special.mask;
  masking.vocabulary = opened.tokenizer.vocab_size();
  masking.first = special.cls.value_or(-1);
  masking.last = special.sep.value_or(-1);
  for (const auto& id : {special.cls, special.sep, special.pad, special.mask, special.unk}) {
    if (id) {
      masking.keep.push_back(*id);
    }
  }
  const TokenShard text = TokenShard::from({opened.tokenizer.encode_ids(text_of(options), false)});
  constexpr int64_t kLongest = 512;
  const int64_t context = std::min({options.context > 0 ? options.context : kLongest,
                                    model.context_length(), text.tokens() + 2});
  const auto loader = make_mlm_loader(
      text, context, masking, {.batch = options.batch, .seed = options.seed, .shuffle = false});
  ProgressBar bar(tell("reading"), common, say("batches"));
  const NoGrad no_grad;
  double loss = 0.0;
  int64_t targets = 0;
  for (int64_t step = 0; step < loader->steps_per_epoch(); ++step) {
    const Batch batch = loader->batch(step);
    ModelInput input;
    input.input_ids = batch.input_ids;
    input.attention_mask = batch.attention_mask;
    input.labels = batch.labels;
    input.want_logits = false;
    if (batch.targets > 0) {
      loss += model.forward(input).loss.item() * static_cast<double>(batch.targets);
      targets += batch.targets;
    }
    bar(step + 1, loader->steps_per_epoch());
  }
  check_data(targets > 0, where(options), "is too short: no token was masked");
  loss /= static_cast<double>(targets);
  EvalReport report;
  report.unit = "tokens";
  report.examples = targets;
  report.metrics = {{"perplexity", std::exp(loss)}, {"loss", loss}};
  return report;
}

namespace {

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<EvalOptions>();
  table.add("MODEL", &o->model, "Model folder, run folder, .gguf or llama2.c .bin").required();
  table
      .add("--data,--text", &o->data,
           "Labelled examples as for heed train, or a text file for lm and mlm (default: stdin)")
      .file();
  table.add("--task", &o->task, "What to measure (default: what the model was made for)")
      .choices({"lm", "mlm", "translate", "classify", "image-classify", "caption", "regress"});
  add_tokenizer(table, o->tokenizer);
  table
      .add("--imatrix", &o->importance,
           "lm: write the importance of every matrix's columns here, for `heed convert --imatrix`")
      .file();
  add_adapter(table, o->adapter);
  table.add("--batch", &o->batch, "Examples per batch").range(1, 4096);
  table.add("--beam-size", &o->beams, "translate, caption: beams; 0: the default of that command")
      .range(0, 1024);
  table.add("--context", &o->context, "lm, mlm: tokens of a window; 0: the model's, at most 1024")
      .range(0, 1 << 20);
  table.add("--stride", &o->stride, "lm: tokens from one window to the next; 0: half a window")
      .range(0, 1 << 20);
  table.add("--seed", &o->seed, "mlm: which tokens are masked");
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"eval",
     "Score a model on labelled examples or a text",
     {"heed eval run --data test.tsv", "heed eval model.gguf --data wiki.test.raw",
      "heed eval run --task translate --data test.tsv --beam-size 4 --json"},
     setup}};

}  // namespace
}  // namespace heed::app
