#include "heed/train.h"

#include <fmt/format.h>

#include <memory>

#include "heed/command.h"
#include "heed/error.h"
#include "heed/open.h"
#include "io/json_writer.h"
#include "io/toml.h"

namespace heed::app {
namespace {

struct Flags {
  TrainOptions options;
  std::string config, preset;
  bool dump = false;
};

void add_options(OptionTable& table, TrainOptions& o) {
  table.add("--task", &o.task, "What to learn (required, here or in --config)")
      .choices({"lm", "mlm", "translate", "classify", "image-classify", "caption", "regress"});
  table
      .add("--data", &o.data,
           "Files or folders, separated by commas; caption also takes shapes (required)")
      .file();
  table.add("--out", &o.out, "Run folder to write (required)").file();
  table.add("--validation", &o.validation, "A separate validation set").file();
  table.add("--validation-share", &o.validation_fraction,
            "Fraction of the data used for validation otherwise");
  table.add("--from", &o.from, "Fine-tune this model folder").file();
  table.add("--freeze", &o.freeze, "Do not update parameters whose names begin with this");
  table.add("--resume", &o.resume, "Resume exactly from the last checkpoint");
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
  table.group("Run");
  table.add("--batch,--global-batch", &o.batch, "Examples per step, over all ranks");
  table.add("--micro-batch", &o.micro_batch, "Examples at a time (default: the batch)");
  table.add("--steps", &o.steps, "Steps (default: by epochs)");
  table.add("--epochs", &o.epochs, "Passes through the data");
  table.add("--lr", &o.lr, "Peak learning rate");
  table.add("--warmup", &o.warmup, "Warm-up steps");
  table.add("--schedule", &o.schedule, "Learning rate schedule after the warm-up")
      .choices({"cosine", "linear", "constant", "inverse-sqrt"});
  table.add("--weight-decay", &o.weight_decay, "Weight decay, applied to matrices only");
  table.add("--clip", &o.clip, "Clip the gradient norm to this; 0: off");
  table.add("--label-smoothing", &o.label_smoothing, "Label smoothing of the targets");
  table.add("--seed", &o.seed, "Seed of initial weights, data order and dropout");
  table.add("--precision", &o.precision, "Type of activations during training; weights stay in f32")
      .choices({"f32", "bf16", "f16"});
  table.add("--recompute", &o.recompute, "Activation checkpointing: less memory, same gradients");
  table
      .add("--ema", &o.ema,
           "Exponential moving average of the weights with this decay, such as 0.999; 0: off")
      .range(0.0, 0.999999);
  table.add("--patience", &o.patience,
            "Stop after this many evaluations without improvement; 0: never");
  table.add("--force", &o.force, "Start even if memory will not suffice");
  table.add("--eval-every", &o.eval_every, "Steps (default: a tenth of the run)");
  table.add("--eval-texts", &o.eval_texts, "Texts to generate per evaluation; all at the end");
  table.add("--probes", &o.probes, "Tracked examples, whose attention is saved at each evaluation");
  table.add("--checkpoint-every", &o.checkpoint_every, "Steps (default: a tenth of the run)");
  table.add("--keep", &o.keep, "Checkpoints to keep");
  table.add("--shard-optimizer", &o.shard_optimizer,
            "Under mpirun: divide the optimizer state among the ranks (ZeRO 1)");
}

/// Defaults, then the preset, then the file, then the flags that were given.
TrainOptions resolve(const OptionTable& table, const Flags& flags) {
  if (flags.preset.empty() && flags.config.empty()) {
    return flags.options;
  }
  TrainOptions resolved;
  if (!flags.preset.empty()) {
    TrainOptions file;
    if (!flags.config.empty()) {
      read_train_options(flags.config, file);
    }
    resolved.task = flags.options.task.empty() ? file.task : flags.options.task;
    apply_train_preset(flags.preset, resolved);
  }
  if (!flags.config.empty()) {
    read_train_options(flags.config, resolved);
  }
  OptionTable typed;  // the same options once more, over the resolved values
  add_options(typed, resolved);
  typed.assign_given(table);
  return resolved;
}

int run(const OptionTable& table, const Flags& flags, const Common& common) {
  TrainOptions options = resolve(table, flags);
  options.quiet = common.quiet;
  check_train_options(options);
  if (flags.dump) {
    const std::string text = dump_train_options(options);
    print(common.json ? parse_toml(text, "options").dump() + "\n" : text);
    return 0;
  }
  options.threads = common.threads;
  const TrainResult result = train(options);
  if (result.rank != 0) {
    return result.interrupted ? 130 : 0;  // rank 0 speaks for all
  }
  if (common.json) {
    JsonWriter line;
    line.begin_object().field("steps", result.steps).field("loss", result.loss);
    line.field("val_loss", result.val_loss).field("interrupted", result.interrupted);
    for (const auto& [name, value] : result.metrics) {
      line.field(name, value);
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
  } else if (result.interrupted) {
    print(fmt::format("stopped at step {}, saved in {}; go on with the same command and --resume\n",
                      result.steps, (options.out / "checkpoints").string()));
  } else {
    if (options.task == "regress") {
      for (const TrainSample& sample : result.samples) {
        print(fmt::format("input      {}\ntarget     {}\nprediction {}\n", sample.input,
                          sample.target, sample.output));
      }
    }
    print(fmt::format("trained {} steps, loss {:.4f}; the model is in {}\n", result.steps,
                      result.loss, (options.out / "model").string()));
  }
  return result.interrupted ? 130 : 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto flags = std::make_shared<Flags>();
  add_options(table, flags->options);
  table.add("--config", &flags->config, "Options from a TOML file; flags override it").file();
  table.add("--preset", &flags->preset, "Sizes to start from").choices({"tiny", "small", "base"});
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
