// Lesson 3. Multi-head attention twice: as a list of single heads, and fused into one product.
#include <cmath>
#include <cstdio>

#include "heed/inspect.h"
#include "heed/picture.h"
#include "heed/transformer.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

constexpr int64_t kWidth = 64, kHeads = 8, kLength = 6;

double worst_difference(const Tensor& a, const Tensor& b) {
  const Tensor difference = reshape(a, {-1}) - reshape(b, {-1});
  return std::sqrt(max(difference * difference, 0).item());
}

}  // namespace

int main(int argc, char** argv) {
  // The textbook's way: eight heads, each with its own Wq, Wk and Wv of 64 x 8, then Wo.
  const Scope scope = Scope::fresh(1);
  const HeadList list(scope, kWidth, kHeads);
  int64_t numbers = 0;
  for (const Parameter& parameter : scope.parameters()) {
    numbers += parameter.tensor.numel();
    if (parameter.name.starts_with("heads.0.") || parameter.name.starts_with("output.")) {
      std::printf("%-22s %s\n", parameter.name.c_str(),
                  parameter.tensor.shape().to_string().c_str());
    }
  }
  std::printf(
      say("%zu parameters with %ld numbers in all\n\n", "파라미터 %zu개, 숫자는 모두 %ld개\n\n"),
      scope.parameters().size(), numbers);

  // The library's way: the same matrices side by side, one product for all heads.
  const MultiHeadAttention fused = list.fused();
  const Tensor x = Scope::fresh(2).buffer("x", {1, kLength, kWidth}, Init::normal(1.0));
  Pass pass;
  pass.layout = Layout::equal(1, kLength);
  const Tensor from_list = list(x);
  const Tensor from_fused = fused(reshape(x, {kLength, kWidth}), pass, 0);
  std::printf(
      say("list and fused agree to 0.00001: %s\n", "목록과 합친 것이 0.00001까지 같음: %s\n"),
      lesson::yes_or_no(worst_difference(from_list, from_fused) < 1e-5));

  if (argc > 1) {  // a folder for the lesson's picture
    const Recorder recorder;
    fused(reshape(x, {kLength, kWidth}), pass, 0);
    Heatmap map = lesson::heatmap(
        say("Eight heads of one layer, untrained", "학습하지 않은 한 층의 헤드 여덟 개"));
    for (int64_t head = 0; head < kHeads; ++head) {
      map.panels.push_back({lesson::head(head), recorder.attentions()[0].record.weights(0, head)});
    }
    map.panels_across = 4;
    save_picture(std::string(argv[1]) + "/03.svg", map);
  }

  // Gradients agree too: both are the same sum.
  std::vector<Tensor> gradients;
  for (const bool use_list : {true, false}) {
    const Tensor y = use_list ? list(x) : fused(reshape(x, {kLength, kWidth}), pass, 0);
    backward(mean(y * y));
    for (const Parameter& parameter : scope.parameters()) {
      if (parameter.name == "heads.3.value.weight" && parameter.tensor.grad().defined()) {
        gradients.push_back(parameter.tensor.grad().clone());
      }
      Tensor(parameter.tensor).set_grad({});
    }
  }
  std::printf(say("so does the gradient of heads.3.value.weight: %s\n",
                  "heads.3.value.weight의 기울기도 같음: %s\n"),
              lesson::yes_or_no(gradients.size() == 2 &&
                                worst_difference(gradients[0], gradients[1]) < 1e-5));
}
