#include "generate/numbers.h"

#include <charconv>
#include <cmath>

#include "base/check.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed {

std::vector<float> parse_numbers(const std::string& text) {
  std::vector<float> numbers;
  constexpr const char* kBetween = " \t\n,;[]\r";
  for (size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    float value = 0;
    const char* from = text.data() + begin + (text[begin] == '+' ? 1 : 0);
    const auto [rest, error] = std::from_chars(from, text.data() + end, value);
    check_data(error == std::errc() && rest == text.data() + end && std::isfinite(value), "numbers",
               "'{}' is not a number", text.substr(begin, end - begin));
    numbers.push_back(value);
    begin = text.find_first_not_of(kBetween, end);
  }
  return numbers;
}

std::vector<double> predict_numbers(const Model& model, const Tensor& features, int64_t length,
                                    int64_t size) {
  const NoGrad no_grad;
  const Tensor given = Tensor::zeros({1, length, size});
  std::vector<double> result;
  for (int64_t t = 0; t < length; ++t) {
    ModelInput input;
    input.features = features;
    input.decoder_features = slice(given, 1, 0, t + 1);
    const std::vector<double> values = model.forward(input).logits.to_doubles();
    const auto last = values.end() - size;
    result.insert(result.end(), last, values.end());
    if (t + 1 < length) {
      std::copy_n(last, size, given.data<float>() + (t + 1) * size);
    }
  }
  return result;
}

}  // namespace heed
