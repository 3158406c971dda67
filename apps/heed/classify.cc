#include <fmt/format.h>

#include <memory>

#include "base/check.h"
#include "heed/command.h"
#include "heed/io.h"
#include "heed/open.h"
#include "heed/ops.h"
#include "io/json.h"
#include "io/json_writer.h"

namespace heed::app {
namespace {

struct Options {
  std::string model, tokenizer;
  std::vector<std::string> texts;
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

void print_result(const std::string& text, const std::vector<std::string>& names,
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
  line.begin_object().field("text", text).field("label", names[best]);
  line.field("probability", probabilities[best]).key("probabilities").begin_object();
  for (size_t i = 0; i < names.size(); ++i) {
    line.field(names[i], probabilities[i]);
  }
  print(line.end_object().end_object().take() + "\n");
}

int run(const Options& options, const Common& common) {
  const Opened opened = open_model(options.model, options.tokenizer);
  for_each_batch(options.texts, options.batch, [&](const std::vector<std::string>& texts) {
    const NoGrad no_grad;
    const Tensor logits = opened.model->forward(encode_texts(opened, texts).input).logits;
    check(logits.defined() && logits.rank() == 2, "classify",
          "the model gives no classes of whole texts; use one trained with --task classify");
    const std::vector<std::string> names = label_names(*opened.model, logits.size(1));
    const std::vector<double> probabilities = softmax(logits).to_doubles();
    for (size_t i = 0; i < texts.size(); ++i) {
      print_result(texts[i], names, probabilities.data() + i * names.size(), common.json);
    }
  });
  check_files_intact();
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder or run folder of a text classifier").required();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  table.add("--tokenizer", &o->tokenizer, "Tokenizer file, where none lies with the model").file();
  table.add("--batch", &o->batch, "Texts at a time").range(1, 4096);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"classify",
     "Label texts with their probabilities",
     {"heed classify run --text \"What a film!\"", "heed classify run --json < reviews.txt"},
     setup}};

}  // namespace
}  // namespace heed::app
