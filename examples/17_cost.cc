// Lesson 17. What attention costs: operations, steps in a row, path lengths, memory.
#include <cmath>
#include <cstdio>

#include "heed/inspect.h"
#include "heed/picture.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

constexpr int64_t kHiddenSize = 512, kKernel = 3, kHeads = 8;

void row(const char* name, const LayerCost& cost) {
  std::printf("%s %12.0f %12.0f %8.0f\n", lesson::pad(name, 16).c_str(), cost.operations,
              cost.sequential_steps, cost.path_length);
}

void table(int64_t length) {
  std::printf(say("n = %ld positions, d = %ld, k = %ld\n", "n = %ld개 위치, d = %ld, k = %ld\n"),
              length, kHiddenSize, kKernel);
  std::printf("%s %s\n", lesson::pad("", 16).c_str(),
              say("  operations   sequential     path", "        연산    순차 단계     경로"));
  row(say("self-attention", "셀프 어텐션"), self_attention_cost(length, kHiddenSize));
  row("RNN", recurrent_cost(length, kHiddenSize));
  row("CNN", convolution_cost(length, kHiddenSize, kKernel));
}

}  // namespace

int main(int argc, char** argv) {
  // Exercise 1: which layer is cheapest for a sentence, and which for a chapter?
  table(100);
  table(5000);
  int64_t length = 1;
  while (self_attention_cost(length, kHiddenSize).operations <=
         recurrent_cost(length, kHiddenSize).operations) {
    ++length;
  }
  std::printf(say("exercise 1: from n = %ld on, an RNN needs fewer operations\n\n",
                  "연습 1: n = %ld부터는 RNN의 연산이 더 적습니다\n\n"),
              length);

  // Exercise 2: the weights are n x n numbers per head. Twice the length, how much memory? And how
  // long may a sequence be in 4 GiB?
  LinePlot plot{
      .title = say("Attention weights written out, 8 heads", "펼쳐 쓴 어텐션 가중치, 헤드 8개"),
      .x_title = say("Tokens", "토큰"),
      .y_title = "MiB"};
  plot.log_x = plot.log_y = plot.markers = true;
  plot.series = {{"f32", {}, {}}, {"bf16", {}, {}}};
  for (const int64_t tokens : {512, 1024, 2048, 4096, 8192}) {
    const double f32 = attention_matrix_bytes(tokens, DType::f32, kHeads) / (1 << 20);
    const double bf16 = attention_matrix_bytes(tokens, DType::bf16, kHeads) / (1 << 20);
    std::printf(say("%5ld tokens: %6.0f MiB in f32, %6.0f MiB in bf16\n",
                    "토큰 %5ld개: f32로 %6.0f MiB, bf16으로 %6.0f MiB\n"),
                tokens, f32, bf16);
    for (const size_t i : {0, 1}) {
      plot.series[i].x.push_back(static_cast<double>(tokens));
      plot.series[i].y.push_back(i == 0 ? f32 : bf16);
    }
  }
  const auto longest = static_cast<int64_t>(std::sqrt(4.0 * (1 << 30) / (4 * kHeads)));
  std::printf(say("exercise 2: 4 GiB hold the weights of %ld tokens in f32\n",
                  "연습 2: 4 GiB에는 f32로 토큰 %ld개의 가중치가 들어갑니다\n"),
              longest);
  if (argc > 1) {  // a folder for the lesson's picture
    save_picture(std::string(argv[1]) + "/17.svg", plot);
  }
}
