#include "heed/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>

#include "base/language.h"
#include "base/print_message.h"
#include "base/printable.h"
#include "dist/communicator.h"
#include "heed/command.h"
#include "heed/open.h"
#include "heed/runtime.h"
#include "heed/stop_signals.h"
#include "io/json_writer.h"
#include "io/toml.h"
#include "train/class_report.h"
#include "train/option_table.h"

namespace heed::app::train_command {
namespace {

struct Flags {
  TrainOptions options;
  std::string config, preset;
  bool dump = false, presets = false;
};

/// The flag of an option: its name with dashes, unless it has had another one.
std::string flag_of(const std::string& name) {
  if (name == "batch") {
    return "--batch,--global-batch";
  }
  if (name == "validation_fraction") {
    return "--validation-share";
  }
  std::string flag = "--" + name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void add_options(OptionTable& table, TrainOptions& o) {
  each_train_option(o, [&](auto& value, const TrainOption& option) {
    if (*option.help == '\0') {
      return;  // every command has it
    }
    if (*option.group != '\0') {
      table.group(option.group);
    }
    Option& added = table.add(flag_of(option.name), &value, option.help);
    if constexpr (std::is_same_v<decltype(value), int64_t&> ||
                  std::is_same_v<decltype(value), double&>) {
      added.range(option.low, option.high);
    }
    if (!option.choices.empty()) {
      added.choices(option.choices);
    }
    if (option.is_path) {
      added.file();
    }
  });
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
    if (!resolved.task.empty() || !flags.options.resume) {  // there is no run to resume
      apply_train_preset(flags.preset, resolved);
    }
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
      print(tell("input      {}\ntarget     {}\nprediction {}\n", printable(sample.input),
                 printable(sample.target), printable(sample.output)));
    }
  }
  if (!result.classes.classes.empty()) {
    print(class_table(result.labels, result.classes));
  }
  print(tell("trained {} steps, loss {:.4f}; the model is in {}\n", result.steps, result.loss,
             printable((options.out / "model").native())));
}

/// How the trained model is used, as a line on stderr: "next: heed predict run 1 2 3".
void print_next(const TrainOptions& options) {
  static const std::map<std::string, std::pair<const char*, const char*>> uses = {
      {"lm", {"generate", "--prompt \"…\""}},
      {"mlm", {"fill", "--text \"… [MASK] …\""}},
      {"translate", {"translate", "--text \"…\""}},
      {"classify", {"classify", "--text \"…\""}},
      {"image-classify", {"classify", "--image FILE"}},
      {"caption", {"caption", "FILE"}},
      {"transcribe", {"transcribe", "FILE"}},
      {"embed", {"embed", "--text \"…\""}},
      {"regress", {"predict", "1 2 3 4 5"}}};
  const auto use = uses.find(options.task);
  const std::string run = options.out.string();
  const bool plain = run.find_first_of(" \t\n'\"\\$`*?&|;<>()") == std::string::npos;
  if (use != uses.end() && plain && options.lora.empty() && !options.quiet) {
    print_now("");  // what was said on stdout comes before it, wherever both go
    print_message(tell("next: {}", fmt::format("heed {} {} {}", use->second.first, printable(run),
                                               use->second.second)));
  }
}

/// Ctrl-C and SIGTERM end the run, and it is saved.
TrainResult train_until_stopped(const TrainOptions& options) {
  constexpr unsigned kSecondsToAgree = 30;  // for ranks to end their step together
  std::stop_source stop;
  std::optional<StopSignals> signals;
  TrainCallbacks callbacks;
  callbacks.stop = stop.get_token();
  callbacks.on_start = [&] { signals.emplace(stop, world().size() > 1 ? kSecondsToAgree : 0); };
  callbacks.on_stopping = [] { StopSignals::call_off(); };
  callbacks.exit_code = [](const std::exception& error) { return exit_code(error); };
  return train(options, callbacks);
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
  const TrainResult result = train_until_stopped(options);
  if (result.rank != 0) {
    return result.interrupted ? kInterrupted : 0;  // rank 0 speaks for all
  }
  if (common.json) {
    print_json(options, result);
  } else if (result.interrupted) {
    print(tell("stopped at step {}, saved in {}; go on with `heed train --resume --out {}`\n",
               result.steps, (options.out / "checkpoints").string(), options.out.string()));
  } else {
    print_text(options, result);
    print_next(options);
  }
  return result.interrupted ? kInterrupted : 0;
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
}  // namespace heed::app::train_command
