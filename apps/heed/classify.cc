#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "io/json_writer.h"

namespace heed::app::classify_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter;
  std::vector<std::string> texts, images, labels;
  std::string hypothesis = ZeroShotOptions().hypothesis_template;
  bool no_truncate = false;
  int64_t batch = 32;
};

constexpr int64_t kReadAhead = 16;  // batches read at once, so that like lengths go together

/// `kind` says what was labelled: a text or an image. Without scores there is nothing to say of it.
void print_result(const char* kind, const std::string& text, std::vector<LabelScore> scores,
                  const std::string& error, bool json) {
  if (!json) {
    print(scores.empty()
              ? "\n"
              : fmt::format("{}\t{:.4f}\n", printable(scores.front().label), scores.front().score));
    return;
  }
  JsonWriter line;
  line.begin_object().field(kind, text);
  if (!error.empty()) {
    line.field("error", error);
  }
  if (!scores.empty()) {
    line.field("label", scores.front().label).field("probability", scores.front().score);
    std::sort(scores.begin(), scores.end(),
              [](const LabelScore& a, const LabelScore& b) { return a.id < b.id; });
    line.key("probabilities").begin_object();
    for (const LabelScore& each : scores) {
      line.field(each.label, each.score);
    }
    line.end_object();
  }
  print(line.end_object().take() + "\n");
}

/// `wanted` is what a call of the pipeline takes besides the images.
template <class Classify, class Wanted>
int classify_images(const Classify& classify, Wanted wanted, const Options& options,
                    const Common& common) {
  Lines lines(options.images, options.batch, common);
  lines.for_each([&](const std::vector<std::string>& images) {
    wanted.run = lines.run(options.batch);
    if (options.images.size() == 1) {
      wanted.run.on_error = nullptr;  // the error itself
    }
    const auto results =
        classify(std::vector<std::filesystem::path>(images.begin(), images.end()), wanted);
    for (size_t i = 0; i < images.size(); ++i) {
      print_result("image", images[i], results[i], lines.error(i), common.json);
    }
  });
  return lines.exit_code();
}

int run(const Options& options, const Common& common) {
  if (!options.labels.empty()) {
    check(!options.images.empty(), "classify", "--label names what an --image may show");
    ZeroShotOptions wanted;
    wanted.labels = options.labels;
    wanted.hypothesis_template = options.hypothesis;
    return classify_images(
        ZeroShotImageClassification(
            options.model, {.tokenizer = options.tokenizer, .load = {.adapter = options.adapter}}),
        wanted, options, common);
  }
  if (!options.images.empty()) {
    return classify_images(
        ImageClassification(options.model, {.load = {.adapter = options.adapter}}),
        ClassificationOptions(), options, common);
  }
  const TextClassification classify(
      options.model, {.tokenizer = options.tokenizer, .load = {.adapter = options.adapter}});
  Lines lines(options.texts, options.batch * kReadAhead, common);
  lines.for_each([&](const std::vector<std::string>& texts) {
    const auto results =
        classify(texts, {.truncate = !options.no_truncate, .run = lines.run(options.batch)});
    for (size_t i = 0; i < texts.size(); ++i) {
      const bool blank = is_blank_line(texts[i]);
      print_result("text", texts[i], blank ? std::vector<LabelScore>() : results[i], lines.error(i),
                   common.json);
    }
  });
  return lines.exit_code();
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of a classifier").required().file();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  table.add("--image", &o->images, "Image file, for vision models; may be given several times")
      .file();
  table.add("--label", &o->labels,
            "What an image may show, for models of images and texts; may be given several times");
  table.add("--template", &o->hypothesis, "The text that is compared with an image");
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table.add("--no-truncate", &o->no_truncate,
            "Reject texts that are too long instead of truncating them");
  table.add("--batch", &o->batch, "Texts per batch").range(1, 4096);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"classify",
     "Label texts or images with their probabilities",
     {"heed classify run --text \"What a film!\"", "heed classify run --json < reviews.txt",
      "heed classify run --image digit.png",
      "heed classify clip-folder --image pet.jpg --label \"a cat\" --label \"a dog\""},
     setup}};

}  // namespace
}  // namespace heed::app::classify_command
