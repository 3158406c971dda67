#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/generation_options.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "io/json_writer.h"

namespace heed::app::caption_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter;
  std::vector<std::string> images;
  int64_t batch = 8;
  BeamOptions beam{.beams = 1, .max_tokens = 64};
  std::string early_stopping = "false", kv_type = "f32";
};

void print_result(const Options& options, const std::string& file,
                  const std::vector<ScoredText>& found, bool alone, bool json) {
  JsonWriter line;
  line.begin_object().field("image", file).key("captions").begin_array();
  for (const ScoredText& each : found) {
    if (json) {
      line.begin_object().field("text", each.text).field("score", each.score).end_object();
    } else if (options.beam.n_best > 1) {
      print(fmt::format("{}\t{:.4f}\t{}\n", printable(file), each.score, printable(each.text)));
    } else {
      const std::string text = printable(each.text);
      print(alone ? text + "\n" : fmt::format("{}\t{}\n", printable(file), text));
    }
  }
  if (json) {
    print(line.end_array().end_object().take() + "\n");
  }
}

int run(const Options& options, const Common& common) {
  const ImageToText describe(options.model, {.tokenizer = options.tokenizer,
                                             .load = {.kv_type = dtype_from_name(options.kv_type),
                                                      .adapter = options.adapter}});
  std::vector<std::string> names;
  std::vector<ModelInput> waiting;
  bool alone = options.images.size() == 1;
  BeamOptions beam = options.beam;
  beam.early_stopping = early_stopping_from_name(options.early_stopping);
  const auto run_waiting = [&] {
    const auto found = describe(waiting, {.beam = beam, .run = {.batch_size = options.batch}});
    for (size_t i = 0; i < found.size(); ++i) {
      print_result(options, names[i], found[i], alone, common.json);
    }
    waiting.clear();
    names.clear();
  };
  const int code = for_each_file(options.images, [&](const std::string& file) {
    const std::vector<ModelInput> of_file = describe.inputs_of(file);
    alone = alone && of_file.size() == 1;
    for (size_t i = 0; i < of_file.size(); ++i) {
      waiting.push_back(of_file[i]);
      names.push_back(of_file.size() == 1 ? file : fmt::format("{}[{}]", file, i));
      if (std::cmp_equal(waiting.size(), options.batch)) {
        run_waiting();
      }
    }
  });
  if (!waiting.empty()) {
    run_waiting();
  }
  return code;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of a captioner").required().file();
  table.add("IMAGE", &o->images, "PNG or JPEG; .npy or .safetensors for region features")
      .required()
      .file();
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table.add("--beam-size", &o->beam.beams, "Beams; 1 is greedy").range(1, 64);
  table.add("--n-best", &o->beam.n_best, "Captions per image, with scores").range(1, 64);
  table.add("--length-penalty", &o->beam.length_penalty, "Values above 0 favour longer texts");
  add_early_stopping(table, o->early_stopping);
  table.add("--max-tokens", &o->beam.max_tokens, "Maximum number of tokens per caption")
      .range(1, 1 << 20);
  table.add("--batch", &o->batch, "Images per batch").range(1, 1024);
  add_kv_type(table, o->kv_type);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"caption",
     "Describe images in words",
     {"heed caption run shapes/0001.png", "heed caption run *.jpg --beam-size 4 --json"},
     setup}};

}  // namespace
}  // namespace heed::app::caption_command
