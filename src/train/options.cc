#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "base/file.h"
#include "heed/optim.h"
#include "heed/train.h"
#include "io/toml.h"
#include "train/lora.h"
#include "train/train_defaults.h"

namespace heed {
namespace {

/// Calls fn(name, field) for every option that a file may hold: one table for reading and writing.
template <class Options, class Fn>
void each_option(Options& o, Fn&& fn) {
  fn("task", o.task);
  fn("data", o.data);
  fn("out", o.out);
  fn("validation", o.validation);
  fn("validation_fraction", o.validation_fraction);
  fn("arch", o.arch);
  fn("tokenizer", o.tokenizer);
  fn("from", o.from);
  fn("freeze", o.freeze);
  fn("lora", o.lora);
  fn("layers", o.layers);
  fn("heads", o.heads);
  fn("width", o.width);
  fn("ff", o.ff);
  fn("context", o.context);
  fn("vocab", o.vocab);
  fn("dropout", o.dropout);
  fn("unordered_features", o.unordered_features);
  fn("batch", o.batch);
  fn("micro_batch", o.micro_batch);
  fn("steps", o.steps);
  fn("epochs", o.epochs);
  fn("lr", o.lr);
  fn("warmup", o.warmup);
  fn("schedule", o.schedule);
  fn("weight_decay", o.weight_decay);
  fn("clip", o.clip);
  fn("label_smoothing", o.label_smoothing);
  fn("dpo_beta", o.dpo_beta);
  fn("seed", o.seed);
  fn("precision", o.precision);
  fn("recompute", o.recompute);
  fn("best_by", o.best_by);
  fn("patience", o.patience);
  fn("ema", o.ema);
  fn("eval_texts", o.eval_texts);
  fn("probes", o.probes);
  fn("eval_every", o.eval_every);
  fn("checkpoint_every", o.checkpoint_every);
  fn("keep", o.keep);
  fn("shard_optimizer", o.shard_optimizer);
}

struct Reader {
  const Json& file;
  void operator()(const char* name, std::string& value) const {
    value = file.string_or(name, value);
  }
  void operator()(const char* name, std::filesystem::path& value) const {
    value = file.string_or(name, value.native());
  }
  void operator()(const char* name, std::vector<std::string>& value) const {
    if (const auto found = file.find(name)) {
      value = found->strings();
    }
  }
  void operator()(const char* name, int64_t& value) const {
    value = file.integer_or(name, value, 0, int64_t{1} << 40);
  }
  void operator()(const char* name, uint64_t& value) const {
    value = static_cast<uint64_t>(file.integer_or(name, static_cast<int64_t>(value), 0, INT64_MAX));
  }
  void operator()(const char* name, double& value) const {
    value = file.number_or(name, value, 0.0, 1e12);
  }
  void operator()(const char* name, bool& value) const { value = file.boolean_or(name, value); }
};

template <class T>
void check_range(const char* name, T value, T low, T high) {
  if (!(value >= low && value <= high)) {
    fail(ErrorKind::usage, name, "{} is not in {} … {}", value, low, high);
  }
}

}  // namespace

void check_train_options(const TrainOptions& o) {
  schedule_from_name(o.schedule);
  if (o.precision != "f32" && o.precision != "bf16" && o.precision != "f16") {
    fail(ErrorKind::usage, "--precision", "'{}' is not one of f32, bf16, f16", o.precision);
  }
  struct Whole {
    const char* name;
    int64_t value, low;
  };
  constexpr int64_t kMost = int64_t{1} << 40;
  for (const Whole& each : {Whole{"--layers", o.layers, 1},
                            {"--heads", o.heads, 1},
                            {"--width", o.width, 1},
                            {"--ff", o.ff, 0},
                            {"--context", o.context, o.task == "lm" ? 2 : 1},
                            {"--vocab", o.vocab, 0},
                            {"--batch", o.batch, 1},
                            {"--micro-batch", o.micro_batch, 0},
                            {"--steps", o.steps, 0},
                            {"--epochs", o.epochs, 0},
                            {"--warmup", o.warmup, 0},
                            {"--patience", o.patience, 0},
                            {"--eval-texts", o.eval_texts, 0},
                            {"--probes", o.probes, 0},
                            {"--eval-every", o.eval_every, 0},
                            {"--checkpoint-every", o.checkpoint_every, 0},
                            {"--keep", o.keep, 0}}) {
    check_range(each.name, each.value, each.low, kMost);
  }
  constexpr double kLargest = 1e12;
  check_range("--dropout", o.dropout, 0.0, 1.0);
  check_range("--lr", o.lr, 0.0, kLargest);
  check_range("--weight-decay", o.weight_decay, 0.0, kLargest);
  check_range("--clip", o.clip, 0.0, kLargest);
  check_range("--label-smoothing", o.label_smoothing, 0.0, 1.0);
  check_range("--dpo-beta", o.dpo_beta, 1e-6, kLargest);
  check_range("--ema", o.ema, 0.0, 0.999999);
  if (!(o.validation_fraction >= 0.0 && o.validation_fraction < 1.0)) {
    fail(ErrorKind::usage, "--validation-share", "{} is no share of 0 to below 1",
         o.validation_fraction);
  }
  check_best_by(o);
  check_lora(o);
  if (o.from.empty() && o.arch != "heed-rnn-seq2seq" && o.width % o.heads != 0) {
    fail(ErrorKind::usage, "--width", "{} is no multiple of --heads {}", o.width, o.heads);
  }
}

std::string dump_train_options(const TrainOptions& options) {
  TomlWriter writer;
  writer.comment("heed train: the options of this run");
  each_option(options, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::filesystem::path>) {
      writer.field(name, value.native());
    } else {
      writer.field(name, value);
    }
  });
  return writer.text();
}

void parse_train_options(const std::string& text, const std::string& name, TrainOptions& options,
                         bool ignore_preset) {
  const Json file = parse_toml(text, name);
  std::vector<std::string> known = {"preset"};
  each_option(options, [&](const char* key, const auto&) { known.emplace_back(key); });
  file.for_each([&](const std::string& key, const Json&) {
    check_data(std::find(known.begin(), known.end(), key) != known.end(), name,
               "'{}' is no option of heed train; known are {}", key, fmt::join(known, ", "));
  });
  const std::string preset = file.string_or("preset", "");
  if (!preset.empty() && !ignore_preset) {
    if (options.task.empty()) {
      options.task = file.string_or("task", "");
    }
    apply_train_preset(preset, options);
  }
  each_option(options, Reader{file});
}

void read_train_options(const std::filesystem::path& path, TrainOptions& options,
                        bool ignore_preset) {
  constexpr uint64_t kMost = 1 << 20;
  parse_train_options(read_file(path, kMost), path.native(), options, ignore_preset);
}

}  // namespace heed
