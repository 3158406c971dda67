#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/language.h"
#include "heed/train.h"

// The one list of training options: config.toml, `heed train`'s flags with their help, the checks
// of values and what must stay the same on resume all come from it. A new option is a member of
// TrainOptions and a row here; tests/train/option_table_test.cc fails where one of them is missing.

namespace heed {

/// What a resumed run may do with an option.
enum class OnResume {
  same,        ///< must be what the run began with
  may_change,  ///< does not change what is computed
  of_model,    ///< belongs to the model that is fine-tuned, whatever the option says
};

/// What there is to know of an option beside its value.
struct TrainOption {
  const char* name = "";   ///< as in config.toml
  const char* help = "";   ///< one line
  const char* group = "";  ///< heading under which it and those that follow stand; empty: as before
  double low = 0.0;        ///< numbers: the smallest and the largest value
  double high = 1e12;
  std::vector<std::string> choices = {};  ///< texts: empty: any
  OnResume resume = OnResume::same;
  bool is_path = false;  ///< names files
  bool in_file = true;   ///< may stand in config.toml
};

/// Calls visit(value, TrainOption) for every option of train(), in the order in which they are
/// shown.
template <class Options, class Visit>
void each_train_option(Options& o, Visit&& visit) {
  using enum OnResume;
  const auto row = [&](auto& value, const TrainOption& option) { visit(value, option); };
  row(o.task, {.name = "task",
               .help = say("What to learn (required, here or in the --config file)"),
               .choices = {"lm", "mlm", "preference", "translate", "classify", "image-classify",
                           "caption", "embed", "fid", "transcribe", "regress"}});
  row(o.data,
      {.name = "data",
       .help = say(
           "Files or folders, separated by commas; for caption also the word shapes (required)"),
       .is_path = true});
  row(o.out, {.name = "out",
              .help = say("Run folder to write (required)"),
              .resume = may_change,
              .is_path = true});
  row(o.validation,
      {.name = "validation", .help = say("A separate validation set"), .is_path = true});
  row(o.validation_fraction,
      {.name = "validation_fraction",
       .help = say("Fraction of the data for validation, if there is no separate set"),
       .high = 0.999999});
  row(o.from, {.name = "from", .help = say("Fine-tune this model folder"), .is_path = true});
  row(o.freeze,
      {.name = "freeze", .help = say("Freeze the parameters whose names begin with this")});
  row(o.lora,
      {.name = "lora",
       .help = say("Train a low-rank adapter of the model that is fine-tuned, whose weights "
                   "stay as they are stored (also quantized): "
                   "rank=16,alpha=32,targets=attention or all")});
  row(o.resume, {.name = "resume",
                 .help = say("Continue exactly from the last checkpoint; needs --out only"),
                 .resume = may_change,
                 .in_file = false});

  row(o.arch, {.name = "arch",
               .help = say("model_type (default: the task's usual one)"),
               .group = say("Model")});
  row(o.tokenizer, {.name = "tokenizer",
                    .help = say("char, bpe:N, wordpiece:N, unigram:N or a file"),
                    .is_path = true});
  row(o.layers, {.name = "layers", .help = say("Blocks per stack"), .low = 1, .resume = of_model});
  row(o.heads, {.name = "heads", .help = say("Attention heads"), .low = 1, .resume = of_model});
  row(o.width, {.name = "width", .help = say("Hidden size"), .low = 1, .resume = of_model});
  row(o.ff, {.name = "ff",
             .help = say("Intermediate size of the feed-forward layers (default: 4 x width)"),
             .resume = of_model});
  row(o.context,
      {.name = "context", .help = say("Maximum number of tokens per sequence"), .low = 1});
  row(o.vocab,
      {.name = "vocab",
       .help = say("Vocabulary size of a tokenizer to be trained (default: the tokenizer's N)")});
  row(o.dropout, {.name = "dropout", .help = say("Dropout rate"), .high = 1.0, .resume = of_model});
  row(o.language,
      {.name = "language", .help = say("Language of the recordings, for --task transcribe")});
  row(o.unordered_features,
      {.name = "unordered_features",
       .help = say("caption: regions of features have no order and get no positions")});

  row(o.batch, {.name = "batch",
                .help = say("Examples per step, of all ranks together"),
                .group = say("Run"),
                .low = 1});
  row(o.micro_batch,
      {.name = "micro_batch", .help = say("Examples at a time (default: the batch)")});
  row(o.steps, {.name = "steps", .help = say("Steps (default: by epochs)")});
  row(o.epochs, {.name = "epochs", .help = say("Passes over the data")});
  row(o.lr,
      {.name = "lr",
       .help = say("Peak learning rate (default: 1e-3; to fine-tune 5e-5, or 3e-4 for a small "
                   "model)")});
  row(o.warmup, {.name = "warmup", .help = say("Warm-up steps")});
  row(o.schedule, {.name = "schedule",
                   .help = say("Learning rate schedule after the warm-up"),
                   .choices = {"cosine", "linear", "constant", "inverse-sqrt"}});
  row(o.weight_decay,
      {.name = "weight_decay", .help = say("Weight decay, applied to matrices only")});
  row(o.clip, {.name = "clip", .help = say("Clip the gradient norm to this; 0: off")});
  row(o.label_smoothing, {.name = "label_smoothing", .help = say("Label smoothing"), .high = 1.0});
  row(o.dpo_beta, {.name = "dpo_beta",
                   .help = say("preference: larger values keep the model closer to where it began"),
                   .low = 1e-6});
  row(o.temperature, {.name = "temperature",
                      .help = say("embed: cosines are divided by this"),
                      .low = 1e-4,
                      .high = 100.0});
  row(o.matryoshka,
      {.name = "matryoshka",
       .help = say("embed: also train the first N numbers of each vector, such as 128,64")});
  row(o.seed, {.name = "seed", .help = say("Seed of initial weights, data order and dropout")});
  row(o.precision, {.name = "precision",
                    .help = say("Type of activations during training; weights stay in f32"),
                    .choices = {"f32", "bf16", "f16"}});
  row(o.recompute,
      {.name = "recompute", .help = say("Activation checkpointing: less memory, same gradients")});
  row(o.ema, {.name = "ema",
              .help = say("Exponential moving average of the weights with this decay, such as "
                          "0.999; 0: off"),
              .high = 0.999999});
  row(o.best_by,
      {.name = "best_by",
       .help =
           say("Metric that chooses the model to keep: loss, perplexity, f1_macro, accuracy, f1, "
               "chrf, bleu, wer, exact_match, ndcg_10, recall_1 or recall_10 (default: by the "
               "task)")});
  row(o.patience, {.name = "patience",
                   .help = say("Stop after this many evaluations without improvement; 0: never")});
  row(o.force, {.name = "force",
                .help = say("Start even where the memory will not suffice"),
                .resume = may_change,
                .in_file = false});
  row(o.eval_every, {.name = "eval_every", .help = say("Steps (default: a tenth of the run)")});
  row(o.eval_texts,
      {.name = "eval_texts", .help = say("Texts to generate per evaluation; all at the end")});
  row(o.probes, {.name = "probes",
                 .help = say("Tracked examples, whose attention is saved at each evaluation"),
                 .resume = may_change});
  row(o.checkpoint_every, {.name = "checkpoint_every",
                           .help = say("Steps (default: a tenth of the run)"),
                           .resume = may_change});
  row(o.keep, {.name = "keep", .help = say("Checkpoints to keep"), .resume = may_change});
  row(o.shard_optimizer,
      {.name = "shard_optimizer",
       .help = say("Under mpirun: divide the optimizer state among the ranks (ZeRO 1)"),
       .resume = may_change});
  // Of the process, not of the run; the program has options of its own for them.
  row(o.threads, {.name = "threads", .resume = may_change, .in_file = false});
  row(o.quiet, {.name = "quiet", .resume = may_change, .in_file = false});
}

}  // namespace heed
