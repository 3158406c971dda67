#include <fmt/format.h>

#include <memory>

#include "base/check.h"
#include "base/language.h"
#include "generate/numbers.h"
#include "heed/command.h"
#include "heed/lines.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "heed/tensor.h"
#include "io/json_writer.h"

namespace heed::app::predict_command {
namespace {

struct Options {
  std::string model, adapter;
  std::vector<std::string> numbers;
  int64_t length = 0;
};

std::string line_of(const std::vector<float>& input, const std::vector<double>& found, bool json) {
  if (!json) {
    return fmt::format("{:.6g}\n", fmt::join(found, " "));
  }
  JsonWriter line;
  line.begin_object().key("input").begin_array();
  for (const float value : input) {
    line.raw(fmt::format("{}", value));
  }
  line.end_array().key("prediction").begin_array();
  for (const double value : found) {
    line.raw(fmt::format("{}", static_cast<float>(value)));
  }
  return line.end_array().end_object().take() + "\n";
}

int run(const Options& options, const Common& common) {
  const auto model = load_model(find_model(options.model), {.adapter = options.adapter});
  check_data(
      model->kind() == ModelKind::regressor, options.model,
      "holds a {}, which does not predict numbers; `heed train --task regress` makes a model "
      "that does",
      model->model_type());
  const auto answer = [&](const std::vector<float>& input) {
    const auto count = static_cast<int64_t>(input.size());
    return predict_numbers(*model, Tensor::from(input, {1, count, 1}),
                           options.length > 0 ? options.length : count);
  };
  if (!options.numbers.empty()) {
    const std::vector<float> input =
        parse_numbers(fmt::format("{}", fmt::join(options.numbers, " ")));
    check_data(!input.empty(), "numbers", "there are none");
    print(line_of(input, answer(input), common.json));
    return 0;
  }
  const std::vector<std::string> none;
  Lines lines(none, 1, common);
  lines.for_each([&](const std::vector<std::string>& texts) {
    for (size_t i = 0; i < texts.size(); ++i) {
      std::string result = "\n";
      try {
        const std::vector<float> input = parse_numbers(texts[i]);
        result = input.empty() ? result : line_of(input, answer(input), common.json);
      } catch (const Error& error) {
        lines.run(1).on_error(i, error.what());
      }
      print_now(result);
    }
  });
  return lines.exit_code();
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Run folder or model folder of `heed train --task regress`")
      .required()
      .file();
  table.add("NUMBERS", &o->numbers,
            "The numbers to go on from (default: lines of stdin, with spaces or as CSV)");
  table.add("--length", &o->length, "Numbers to predict (default: as many as were given)")
      .range(0, 1 << 20);
  add_adapter(table, o->adapter);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"predict",
     "Predict numbers with a trained regressor",
     {"heed predict run 1 2 3 4 5", "heed predict run --json < rows.csv"},
     setup}};

}  // namespace
}  // namespace heed::app::predict_command
