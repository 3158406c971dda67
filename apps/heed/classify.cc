#include <fmt/format.h>

#include <memory>

#include "base/check.h"
#include "heed/command.h"
#include "heed/image_input.h"
#include "heed/io.h"
#include "heed/open.h"
#include "heed/ops.h"
#include "io/json.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer;
  std::vector<std::string> texts, images;
  int64_t batch = 32;
};

/// config.json's id2label, or LABEL_N.
std::vector<std::string> label_names(const Model& model, int64_t count) {
  const Json config = Json::parse(model.config(), "config.json");
  const std::optional<Json> labels = config.find("id2label");
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    const std::string id = std::to_string(i);
    const std::optional<Json> name =
        labels && labels->is_object() ? labels->find(id) : std::nullopt;
    names.push_back(name && name->is_string() ? name->string() : "LABEL_" + id);
  }
  return names;
}

/// `kind` says what was labelled: a text or an image.
void print_result(const char* kind, const std::string& text, const std::vector<std::string>& names,
                  const double* probabilities, bool json) {
  size_t best = 0;
  for (size_t i = 1; i < names.size(); ++i) {
    best = probabilities[i] > probabilities[best] ? i : best;
  }
  if (!json) {
    print(fmt::format("{}\t{:.4f}\n", names[best], probabilities[best]));
    return;
  }
  JsonWriter line;
  line.begin_object().field(kind, text).field("label", names[best]);
  line.field("probability", probabilities[best]).key("probabilities").begin_object();
  for (size_t i = 0; i < names.size(); ++i) {
    line.field(names[i], probabilities[i]);
  }
  print(line.end_object().end_object().take() + "\n");
}

void print_results(const char* kind, const std::vector<std::string>& texts, const Model& model,
                   const ModelInput& input, bool json) {
  const NoGrad no_grad;
  const Tensor logits = model.forward(input).logits;
  check_suits(logits.defined() && logits.rank() == 2, "classify", model,
              "use one trained with --task classify or image-classify");
  const std::vector<std::string> names = label_names(model, logits.size(1));
  const std::vector<double> probabilities = softmax(logits).to_doubles();
  for (size_t i = 0; i < texts.size(); ++i) {
    print_result(kind, texts[i], names, probabilities.data() + i * names.size(), json);
  }
}

int classify_images(const Options& options, bool json) {
  const std::unique_ptr<Model> model = load_model(options.model);
  check_suits(model->kind() == ModelKind::vision, "classify --image", *model,
              "leave --image out or use one trained with --task image-classify");
  const VisionConfig vision = vision_config(Json::parse(model->config(), "config.json"));
  for (const std::string& image : options.images) {
    ModelInput input;
    input.pixel_values = model_pixels(vision, options.model, image);
    print_results("image", {image}, *model, input, json);
  }
  check_files_intact();
  return 0;
}

int run(const Options& options, const Common& common) {
  if (!options.images.empty()) {
    return classify_images(options, common.json);
  }
  const Opened opened = open_model(options.model, options.tokenizer);
  for_each_batch(options.texts, options.batch, [&](const std::vector<std::string>& texts) {
    print_results("text", texts, *opened.model, encode_texts(opened, texts).input, common.json);
  });
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of a classifier").required().file();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  table.add("--image", &o->images, "Image file, for a model of images; may be given several times")
      .file();
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, where none lies with the model").file();
  table.add("--batch", &o->batch, "Texts at a time").range(1, 4096);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"classify",
     "Label texts or images with their probabilities",
     {"heed classify run --text \"What a film!\"", "heed classify run --json < reviews.txt",
      "heed classify run --image digit.png"},
     setup}};

}  // namespace
}  // namespace heed::app
