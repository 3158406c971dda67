#include "heed/train.h"

#include <fmt/format.h>

#include <memory>

#include "base/language.h"
#include "heed/command.h"
#include "heed/error.h"
#include "heed/open.h"
#include "io/json_writer.h"
#include "io/toml.h"
#include "train/class_report.h"

namespace heed::app {
namespace {

struct Flags {
  TrainOptions options;
  std::string config, preset;
  bool dump = false, presets = false;
};

void add_options(OptionTable& table, TrainOptions& o) {
  table.add("--task", &o.task, "What to learn (required, here or in --config)")
      .choices({"lm", "mlm", "preference", "translate", "classify", "image-classify", "caption",
                "regress"});
  table
      .add("--data", &o.data,
           "Files or folders, separated by commas; caption also takes shapes (required)")
      .file();
  table.add("--out", &o.out, "Run folder to write (required)").file();
  table.add("--validation", &o.validation, "A separate validation set").file();
  table.add("--validation-share", &o.validation_fraction, "Else this fraction of the data");
  table.add("--from", &o.from, "Fine-tune this model folder").file();
  table.add("--freeze", &o.freeze, "Freeze the parameters whose names begin with this");
  table.add("--lora", &o.lora,
            "Train a low-rank adapter of --from, whose weights stay as they are stored (also "
            "quantized): rank=16,alpha=32,targets=attention or all");
  table.add("--resume", &o.resume,
            "Resume exactly from the last checkpoint; --out RUN is enough beside it");
  table.group("Model");
  table.add("--arch", &o.arch, "model_type (default: the task's usual one)");
  table.add("--tokenizer", &o.tokenizer, "char, bpe:N, wordpiece:N, unigram:N or a file").file();
  table.add("--layers", &o.layers, "Blocks per stack");
  table.add("--heads", &o.heads, "Attention heads");
  table.add("--width", &o.width, "Hidden size");
  table.add("--ff", &o.ff, "Intermediate size of the feed-forward layers (default: 4 x width)");
  table.add("--context", &o.context, "Maximum number of tokens per sequence");
  table.add("--vocab", &o.vocab,
            "Vocabulary size of a tokenizer to be trained (default: the tokenizer's N)");
  table.add("--dropout", &o.dropout, "Dropout rate");
  table.add("--unordered-features", &o.unordered_features,
            "caption: regions of features have no order and get no positions");
  table.group("Run");
  table.add("--batch,--global-batch", &o.batch, "Examples per step, of all ranks together");
  table.add("--micro-batch", &o.micro_batch, "Examples at a time (default: the batch)");
  table.add("--steps", &o.steps, "Steps (default: by epochs)");
  table.add("--epochs", &o.epochs, "Passes over the data");
  table
      .add("--lr", &o.lr,
           "Peak learning rate (default: 1e-3; with --from 5e-5, or 3e-4 for a small model)")
      .range(0, 1e12);
  table.add("--warmup", &o.warmup, "Warm-up steps");
  table.add("--schedule", &o.schedule, "Learning rate schedule after the warm-up")
      .choices({"cosine", "linear", "constant", "inverse-sqrt"});
  table.add("--weight-decay", &o.weight_decay, "Weight decay, applied to matrices only");
  table.add("--clip", &o.clip, "Clip the gradient norm to this; 0: off");
  table.add("--label-smoothing", &o.label_smoothing, "Label smoothing");
  table.add("--dpo-beta", &o.dpo_beta,
            "preference: larger values keep the model closer to where it began");
  table.add("--seed", &o.seed, "Seed of initial weights, data order and dropout");
  table.add("--precision", &o.precision, "Type of activations during training; weights stay in f32")
      .choices({"f32", "bf16", "f16"});
  table.add("--recompute", &o.recompute, "Activation checkpointing: less memory, same gradients");
  table
      .add("--ema", &o.ema,
           "Exponential moving average of the weights with this decay, such as 0.999; 0: off")
      .range(0.0, 0.999999);
  table.add(
      "--best-by", &o.best_by,
      "Metric that chooses the model to keep: loss, perplexity, f1_macro, accuracy, f1, chrf, "
      "bleu or exact_match (default: by the task)");
  table.add("--patience", &o.patience,
            "Stop after this many evaluations without improvement; 0: never");
  table.add("--force", &o.force, "Start even where the memory will not suffice");
  table.add("--eval-every", &o.eval_every, "Steps (default: a tenth of the run)");
  table.add("--eval-texts", &o.eval_texts, "Texts to generate per evaluation; all at the end");
  table.add("--probes", &o.probes, "Tracked examples, whose attention is saved at each evaluation");
  table.add("--checkpoint-every", &o.checkpoint_every, "Steps (default: a tenth of the run)");
  table.add("--keep", &o.keep, "Checkpoints to keep");
  table.add("--shard-optimizer", &o.shard_optimizer,
            "Under mpirun: divide the optimizer state among the ranks (ZeRO 1)");
}

/// The file with options: the one that was named, or the run's own where it is resumed.
std::filesystem::path options_file(const Flags& flags) {
  const std::filesystem::path own = flags.options.out / "config.toml";
  if (!flags.config.empty()) {
    return flags.config;
  }
  return flags.options.resume && std::filesystem::is_regular_file(own) ? own
                                                                       : std::filesystem::path();
}

/// Defaults, then the preset, then the file, then the flags that were given.
TrainOptions resolve(const OptionTable& table, const Flags& flags) {
  const std::filesystem::path config = options_file(flags);
  TrainOptions resolved;
  resolved.task = flags.options.task;
  if (!flags.preset.empty()) {
    if (resolved.task.empty() && !config.empty()) {
      TrainOptions file;
      read_train_options(config, file, true);
      resolved.task = file.task;
    }
    apply_train_preset(flags.preset, resolved);
  }
  if (!config.empty()) {
    read_train_options(config, resolved, !flags.preset.empty());
  }
  OptionTable typed;  // the same options once more, over the resolved values
  add_options(typed, resolved);
  typed.assign_given(table);
  return resolved;
}

std::string preset_table() {
  std::string text = fmt::format("{:<15} {:<6} {:>6} {:>5} {:>6} {:>5} {:>8} {:>6} {:>8} {:>8}\n",
                                 tell("task"), tell("name"), "layers", "heads", "width", "ff",
                                 "context", "batch", "lr", "dropout");
  for (const TrainPreset& each : train_presets()) {
    text += fmt::format("{:<15} {:<6} {:>6} {:>5} {:>6} {:>5} {:>8} {:>6} {:>8} {:>8}\n", each.task,
                        each.name, each.layers, each.heads, each.width,
                        each.ff > 0 ? each.ff : 4 * each.width, each.context, each.batch, each.lr,
                        each.dropout);
  }
  return text +
         tell(
             "tiny: minutes on two cores; small: about an hour; base: the size of published "
             "models, for fine-tuning or many cores.") +
         "\n";
}

void print_json(const TrainOptions& options, const TrainResult& result) {
  JsonWriter line;
  line.begin_object().field("steps", result.steps).field("loss", result.loss);
  line.field("val_loss", result.val_loss).field("interrupted", result.interrupted);
  for (const auto& [name, value] : result.metrics) {
    line.field(name, value);
  }
  if (!result.best_by.empty()) {
    line.field("best_by", result.best_by);
  }
  line.field("model", (options.out / "model").string());
  if (options.task == "regress") {
    line.key("samples").begin_array();
    for (const TrainSample& sample : result.samples) {
      line.begin_object().field("input", sample.input).field("target", sample.target);
      line.field("prediction", sample.output).end_object();
    }
    line.end_array();
  }
  print(line.end_object().take() + "\n");
}

void print_text(const TrainOptions& options, const TrainResult& result) {
  if (options.task == "regress") {
    for (const TrainSample& sample : result.samples) {
      print(tell("input      {}\ntarget     {}\nprediction {}\n", sample.input, sample.target,
                 sample.output));
    }
  }
  if (!result.classes.classes.empty()) {
    print(class_table(result.labels, result.classes));
  }
  print(tell("trained {} steps, loss {:.4f}; the model is in {}\n", result.steps, result.loss,
             (options.out / "model").string()));
}

int run(const OptionTable& table, const Flags& flags, const Common& common) {
  if (flags.presets) {
    print(preset_table());
    return 0;
  }
  TrainOptions options = resolve(table, flags);
  options.quiet = common.quiet;
  check_train_options(options);
  if (flags.dump) {
    const std::string text = dump_train_options(resolve_train_options(options));
    print(common.json ? parse_toml(text, "options").dump() + "\n" : text);
    return 0;
  }
  options.threads = common.threads;
  const TrainResult result = train(options);
  if (result.rank != 0) {
    return result.interrupted ? 130 : 0;  // rank 0 speaks for all
  }
  if (common.json) {
    print_json(options, result);
  } else if (result.interrupted) {
    print(tell("stopped at step {}, saved in {}; go on with `heed train --resume --out {}`\n",
               result.steps, (options.out / "checkpoints").string(), options.out.string()));
  } else {
    print_text(options, result);
  }
  return result.interrupted ? 130 : 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto flags = std::make_shared<Flags>();
  add_options(table, flags->options);
  table.add("--config", &flags->config, "Options from a TOML file; flags override it").file();
  table
      .add("--preset", &flags->preset,
           "Sizes, batch and rates to start from, by the task; --list-presets shows them")
      .choices({"tiny", "small", "base"});
  table.add("--list-presets", &flags->presets, "Print the sizes of all presets and stop");
  table.add("--dump-config", &flags->dump, "Print the resolved options and stop");
  return [flags, &table, &common] { return run(table, *flags, common); };
}

const Registration kRegistration{
    {"train",
     "Train a model on your own data",
     {"heed train --task lm --data input.txt --tokenizer char --preset small --steps 2000 --out "
      "run",
      "heed train --task classify --data reviews.tsv --epochs 3 --out run",
      "heed train --task caption --data shapes --preset tiny --epochs 20 --out run"},
     setup}};

}  // namespace
}  // namespace heed::app
