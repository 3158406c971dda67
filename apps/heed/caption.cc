#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "heed/command.h"
#include "heed/generate.h"
#include "heed/image_input.h"
#include "heed/io.h"
#include "heed/open.h"
#include "heed/ops.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer;
  std::vector<std::string> images;
  int64_t batch = 8;
  BeamOptions beam{.beams = 1, .max_tokens = 64};
};

/// Region features f32 [images, N, F] (or [N, F] of one image) from .npy, or from the tensor
/// `features` of a .safetensors.
Tensor load_features(const std::filesystem::path& file) {
  Tensor features;
  if (file.extension() == ".npy") {
    features = load_npy(file);
  } else {
    const TensorMap tensors = load_safetensors(file);
    const auto found = tensors.find("features");
    check_data(found != tensors.end(), file.native(), "has no tensor 'features'");
    features = found->second;
  }
  check_data(is_floating(features.dtype()) && (features.rank() == 2 || features.rank() == 3) &&
                 features.numel() > 0,
             file.native(),
             "is {} {}; floats [regions, width] or [images, regions, width] are "
             "wanted",
             name_of(features.dtype()), features.shape().to_string());
  const Tensor wide = cast(features, DType::f32);
  return features.rank() == 2 ? unsqueeze(wide, 0) : wide;
}

bool is_features(const std::filesystem::path& file) {
  return file.extension() == ".npy" || file.extension() == ".safetensors";
}

struct Named {
  std::string name;
  Request request;
};

/// The images of a file: one, or as many as there are features of.
std::vector<Named> make_requests(const Opened& opened, const Options& options,
                                 const std::string& file) {
  Request request;
  request.max_tokens = options.beam.max_tokens;
  apply_generation_tokens(*opened.model, request);
  const bool regions = opened.model->model_type() == "heed-captioner";
  if (regions != is_features(file)) {
    fail(ErrorKind::usage, "caption", "{}: this model reads {}", file,
         regions ? "region features (.npy or .safetensors), not pictures"
                 : "pictures (PNG or JPEG), not features");
  }
  if (!regions) {
    const Json config = Json::parse(opened.model->config(), "config.json");
    request.encoder.pixel_values = model_pixels(vision_config(config), options.model, file);
    return {{file, request}};
  }
  const Tensor features = load_features(file);
  std::vector<Named> requests;
  for (int64_t i = 0; i < features.size(0); ++i) {
    request.encoder.features = slice(features, 0, i, i + 1);
    requests.push_back({features.size(0) == 1 ? file : fmt::format("{}[{}]", file, i), request});
  }
  return requests;
}

void print_result(const Opened& opened, const Options& options, const std::string& file,
                  const std::vector<Hypothesis>& found, bool alone, bool json) {
  JsonWriter line;
  line.begin_object().field("image", file).key("captions").begin_array();
  for (const Hypothesis& hypothesis : found) {
    const std::string text = opened.tokenizer.decode(
        std::vector<int32_t>(hypothesis.ids.begin(), hypothesis.ids.end()), true);
    if (json) {
      line.begin_object().field("text", text).field("score", hypothesis.score).end_object();
    } else if (options.beam.n_best > 1) {
      print(fmt::format("{}\t{:.4f}\t{}\n", file, hypothesis.score, text));
    } else {
      print(alone ? text + "\n" : fmt::format("{}\t{}\n", file, text));
    }
  }
  if (json) {
    print(line.end_array().end_object().take() + "\n");
  }
}

int run(const Options& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer);
  check_suits(opened.model->kind() == ModelKind::vision_decoder, "caption", *opened.model,
              "use one trained with --task caption");
  std::vector<Named> waiting;
  bool alone = options.images.size() == 1;
  const auto run_waiting = [&] {
    std::vector<Request> requests;
    requests.reserve(waiting.size());
    for (const Named& each : waiting) {
      requests.push_back(each.request);
    }
    const auto found = beam_search(*opened.model, requests, options.beam);
    for (size_t i = 0; i < found.size(); ++i) {
      print_result(opened, options, waiting[i].name, found[i], alone, common.json);
    }
    waiting.clear();
  };
  for (const std::string& file : options.images) {
    std::vector<Named> of_file = make_requests(opened, options, file);
    alone = alone && of_file.size() == 1;
    for (Named& each : of_file) {
      waiting.push_back(std::move(each));
      if (std::cmp_equal(waiting.size(), options.batch)) {
        run_waiting();
      }
    }
  }
  if (!waiting.empty()) {
    run_waiting();
  }
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of a captioner").required().file();
  table.add("IMAGE", &o->images, "PNG or JPEG; .npy or .safetensors for region features")
      .required()
      .file();
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, where none lies with the model").file();
  table.add("--beam-size", &o->beam.beams, "Beams; 1 is greedy").range(1, 64);
  table.add("--n-best", &o->beam.n_best, "Captions of each picture, with scores").range(1, 64);
  table.add("--length-penalty", &o->beam.length_penalty, "Above 0: longer is better");
  table.add("--max-tokens", &o->beam.max_tokens, "Most tokens of a caption").range(1, 1 << 20);
  table.add("--batch", &o->batch, "Pictures at a time").range(1, 1024);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"caption",
     "Describe pictures in words",
     {"heed caption run shapes/0001.png", "heed caption run *.jpg --beam-size 4 --json"},
     setup}};

}  // namespace
}  // namespace heed::app
