#include "train/run_log.h"

#include <fmt/format.h>

#include "base/language.h"
#include "base/printable.h"
#include "heed/runtime.h"
#include "io/json_writer.h"
#include "train/metric_names.h"

namespace heed {
namespace {

/// At most `most` bytes on one line, cut between characters.
std::string shortened(const std::string& text, size_t most = 120) {
  std::string line;
  for (const char c : text) {
    line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  }
  if (line.size() <= most) {
    return line;
  }
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) {
    --end;
  }
  return line.substr(0, end) + "…";
}

}  // namespace

void RunLog::open(int64_t step) {
  if (folder_.writes()) {
    events_ = std::make_unique<EventFile>(folder_.path(), step + 1);
  }
}

void RunLog::say(const std::string& text) {
  if (!quiet_) {
    line_.finish();
    std::fprintf(stderr, "%s\n", printable_lines(text).c_str());
  }
}

void RunLog::report(const std::string& text) {
  if (!quiet_ && !text.empty()) {
    line_.finish();
    std::fprintf(stderr, "\n%s", printable_lines(text).c_str());
  }
}

void RunLog::step(const TrainProgress& progress) {
  if (!events_) {
    return;  // another rank writes
  }
  TrainProgress shown = progress;
  shown.validation = validation_;
  line_.show(shown);
  JsonWriter json;
  json.begin_object().field("step", progress.step).field("loss", progress.loss);
  json.field("grad_norm", progress.norm).field("lr", progress.lr);
  json.field("tokens_per_second", progress.tokens_per_second).field("seconds", progress.seconds);
  json.field("peak_memory", memory_stats().peak);
  if (!progress.finite) {
    json.field("skipped", true);
  }
  if (progress.sum_seconds > 0.0) {
    json.field("sum_seconds", progress.sum_seconds);
    json.field("sum_wait_seconds", progress.sum_wait_seconds);
  }
  folder_.add_line("metrics.jsonl", json.end_object().text());
  events_->add_scalar("train/loss", progress.step, progress.loss);
  events_->add_scalar("train/grad_norm", progress.step, progress.norm);
  events_->add_scalar("train/lr", progress.step, progress.lr);
  events_->add_scalar("train/tokens_per_second", progress.step, progress.tokens_per_second);
}

void RunLog::evaluation(int64_t step, const Evaluation& evaluation, const std::string& best_by,
                        bool final) {
  if (!events_) {
    return;  // another rank writes
  }
  validation_ = evaluation.loss;
  JsonWriter json;
  json.begin_object().field("step", step).field("loss", evaluation.loss);
  json.field("val_loss", evaluation.loss);
  std::string line =
      final ? tell("the best model on the whole validation set: loss {:.4f}", evaluation.loss)
            : tell("validation at step {}: loss {:.4f}", step, evaluation.loss);
  const std::string group = final ? "final/" : "validation/";
  events_->add_scalar(group + "loss", step, evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) {
    json.field(name, value);
    line += fmt::format(" | {} {:.{}f}", metric_name(name.substr(name.find('_') + 1)), value,
                        value < 1.5 ? 4 : 2);
    events_->add_scalar(group + name.substr(name.find('_') + 1), step, value);
  }
  json.field("tokens_per_second",
             static_cast<double>(evaluation.tokens) / std::max(evaluation.seconds, 1e-9));
  json.field("seconds", evaluation.seconds);
  if (final) {
    json.field("final", true);
  } else {
    json.field("best", !best_by.empty());
  }
  folder_.add_line("metrics.jsonl", json.end_object().text());
  say(line +
      (best_by.empty() || final ? "" : " | " + tell("best so far by {}", metric_name(best_by))));
  if (!final) {
    samples(step, evaluation.samples);
  }
  events_->flush();
}

void RunLog::samples(int64_t step, const std::vector<TrainSample>& samples) {
  if (!events_) {
    return;  // another rank writes
  }
  std::string text;
  for (const TrainSample& sample : samples) {
    folder_.add_line("samples.jsonl", JsonWriter()
                                          .begin_object()
                                          .field("step", step)
                                          .field("input", sample.input)
                                          .field("target", sample.target)
                                          .field("output", sample.output)
                                          .end_object()
                                          .text());
    // Two spaces at a line's end: a line break in TensorBoard's Markdown.
    text += fmt::format("input: {}  \ntarget: {}  \noutput: {}\n\n", sample.input, sample.target,
                        sample.output);
  }
  if (!samples.empty()) {
    events_->add_text("samples", step, text);
    const TrainSample& first = samples.front();
    if (!first.input.empty()) {
      say(tell("  input   {}", shortened(first.input)));
    }
    if (!first.target.empty()) {
      say(tell("  target  {}", shortened(first.target)));
    }
    say(tell("  output  {}", shortened(first.output)));
  }
}

}  // namespace heed
