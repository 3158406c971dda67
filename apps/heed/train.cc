#include "heed/train.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "heed/command.h"
#include "heed/error.h"
#include "heed/open.h"

namespace heed::app {
namespace {

struct Flags {
  TrainOptions options;
  std::string config, preset;
  bool dump = false;
};

/// Sizes by name; flags go over them.
void apply_preset(const std::string& name, TrainOptions& o) {
  if (name == "tiny") {
    o.layers = 2, o.heads = 2, o.width = 64, o.context = 64, o.batch = 16;
  } else if (name == "small") {
    o.layers = 6, o.heads = 6, o.width = 384, o.context = 256, o.batch = 16;
  } else {
    o.layers = 12, o.heads = 12, o.width = 768, o.context = 512, o.batch = 8, o.lr = 3e-4;
  }
}

void add_options(CLI::App& app, TrainOptions& o) {
  app.add_option("--task", o.task, "lm, mlm, translate, classify, image-classify or regress");
  app.add_option("--data", o.data, "Files or folders, separated by commas");
  app.add_option("--out", o.out, "Run folder");
  app.add_option("--validation", o.validation, "A validation set of its own");
  app.add_option("--validation-share", o.validation_share, "Else this share of the data")
      ->capture_default_str();
  app.add_option("--from", o.from, "Fine-tune this model folder");
  app.add_option("--freeze", o.freeze, "Parameters whose names begin so stay as they are");
  app.add_flag("--resume", o.resume, "Go on from the last checkpoint, exactly");
  auto* model = app.add_option_group("Model");
  model->add_option("--arch", o.arch, "model_type (default: the task's usual one)");
  model->add_option("--tokenizer", o.tokenizer, "char, bpe:N, wordpiece:N, unigram:N or a file");
  model->add_option("--layers", o.layers, "Blocks a stack")->capture_default_str();
  model->add_option("--heads", o.heads, "Attention heads")->capture_default_str();
  model->add_option("--width", o.width, "Width of a token's row")->capture_default_str();
  model->add_option("--ff", o.ff, "Feed-forward width (default: 4 x width)");
  model->add_option("--context", o.context, "Most tokens of a sequence")->capture_default_str();
  model->add_option("--vocab", o.vocab, "Size of a tokenizer to be trained");
  model->add_option("--dropout", o.dropout, "Dropout rate")->capture_default_str();
  auto* run = app.add_option_group("Run");
  run->add_option("--batch,--global-batch", o.batch, "Examples a step")->capture_default_str();
  run->add_option("--micro-batch", o.micro_batch, "Examples at a time (default: the batch)");
  run->add_option("--steps", o.steps, "Steps (default: by epochs)");
  run->add_option("--epochs", o.epochs, "Times through the data")->capture_default_str();
  run->add_option("--lr", o.lr, "Peak learning rate")->capture_default_str();
  run->add_option("--warmup", o.warmup, "Steps of warm-up")->capture_default_str();
  run->add_option("--schedule", o.schedule, "cosine, linear, constant or inverse-sqrt")
      ->capture_default_str();
  run->add_option("--weight-decay", o.weight_decay, "Of matrices")->capture_default_str();
  run->add_option("--clip", o.clip, "Largest gradient norm; 0: off")->capture_default_str();
  run->add_option("--label-smoothing", o.label_smoothing, "Of the targets")->capture_default_str();
  run->add_option("--seed", o.seed, "Seed of weights, order and dropout")->capture_default_str();
  run->add_flag("--recompute", o.recompute, "Gradient checkpointing: less memory, same gradients");
  run->add_option("--eval-every", o.eval_every, "Steps (default: a tenth of the run)");
  run->add_option("--checkpoint-every", o.checkpoint_every, "Steps (default: a tenth of the run)");
  run->add_option("--keep", o.keep, "Checkpoints to keep")->capture_default_str();
}

/// Defaults, then the preset, then the file, then the flags that were given.
TrainOptions resolve(const CLI::App& app, const Flags& flags) {
  if (flags.preset.empty() && flags.config.empty()) {
    return flags.options;
  }
  TrainOptions resolved;
  if (!flags.preset.empty()) {
    apply_preset(flags.preset, resolved);
  }
  if (!flags.config.empty()) {
    read_train_options(flags.config, resolved);
  }
  CLI::App parser;  // the same options once more, over the resolved values
  add_options(parser, resolved);
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (const CLI::Option* option : group->get_options()) {
      if (option->count() > 0) {
        if (CLI::Option* twin = parser.get_option_no_throw("--" + option->get_lnames().front())) {
          twin->add_result(option->results());
          twin->run_callback();
        }
      }
    }
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty()) {
      if (CLI::Option* twin = parser.get_option_no_throw("--" + option->get_lnames().front())) {
        twin->add_result(option->results());
        twin->run_callback();
      }
    }
  }
  return resolved;
}

int run(const CLI::App& app, const Flags& flags, const Common& common) {
  TrainOptions options = resolve(app, flags);
  options.quiet = common.quiet;
  if (flags.dump) {
    print(dump_train_options(options));
    return 0;
  }
  const TrainResult result = train(options);
  if (common.json) {
    nlohmann::ordered_json line;
    line["steps"] = result.steps;
    line["loss"] = result.loss;
    line["val_loss"] = result.val_loss;
    line["model"] = (options.out / "model").string();
    print(line.dump() + "\n");
  } else if (result.interrupted) {
    print(fmt::format("stopped at step {}; go on with the same command and --resume\n",
                      result.steps));
  } else {
    print(fmt::format("trained {} steps, loss {:.4f}; the model is in {}\n", result.steps,
                      result.loss, (options.out / "model").string()));
  }
  return result.interrupted ? 130 : 0;
}

std::function<int()> setup(CLI::App& app, const Common& common) {
  auto flags = std::make_shared<Flags>();
  add_options(app, flags->options);
  app.add_option("--config", flags->config, "Options from a TOML file; flags go over it");
  app.add_option("--preset", flags->preset, "tiny, small or base: sizes to start from")
      ->check(CLI::IsMember({"tiny", "small", "base"}));
  app.add_flag("--dump-config", flags->dump, "Print the resolved options and stop");
  return [flags, &app, &common] { return run(app, *flags, common); };
}

const Registration kRegistration{
    {"train",
     "Train a model on your own data",
     {"heed train --task lm --data input.txt --tokenizer char --preset small --steps 2000 --out "
      "run",
      "heed train --task classify --data reviews.tsv --epochs 3 --out run"},
     setup}};

}  // namespace
}  // namespace heed::app
