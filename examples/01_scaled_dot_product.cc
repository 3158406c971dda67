// Lesson 1. Scaled dot-product attention, one step at a time, on "The cat sat".
#include <cmath>
#include <iostream>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/picture.h"
#include "lesson.h"

using namespace heed;
using lesson::say;

namespace {

const std::vector<std::string> kWords{"The", "cat", "sat"};

Heatmap show(const std::string& title, const Tensor& values, bool by_word,
             const std::string& what = "") {
  Heatmap map = lesson::heatmap(title);
  map.panels.push_back({"", values});
  map.row_labels = kWords;
  if (by_word) {
    map.column_labels = kWords;
  } else {
    map.row_title = say("Word", "단어");
    map.column_title = say("Number", "숫자");
    map.value_title = say("Value", "값");
  }
  map.value_title = what.empty() ? map.value_title : what;
  map.colors = ColorMap::diverging;
  std::cout << to_terminal(map) << "\n";
  return map;
}

}  // namespace

int main(int argc, char** argv) {
  // Three words, four numbers each. A model learns these; here they are made up.
  const Tensor x = Tensor::from<float>({1, 0, 1, 0,   // The
                                        0, 2, 0, 2,   // cat
                                        1, 1, 1, 1},  // sat
                                       {3, 4});
  // Three matrices turn each word into what it asks (Q), what it offers (K) and what it says (V).
  const Tensor wq = Tensor::from<float>({1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1}, {4, 3});
  const Tensor wk = Tensor::from<float>({0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0}, {4, 3});
  const Tensor wv = Tensor::from<float>({0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0}, {4, 3});
  const Tensor q = matmul(x, wq), k = matmul(x, wk), v = matmul(x, wv);
  show("Q = X Wq", q, false);
  show("K = X Wk", k, false);
  show("V = X Wv", v, false);

  // Step 1: every question meets every offer.
  const Tensor scores = matmul(q, transpose(k));
  show(say("1. scores = Q Kt", "1. 점수 = Q Kt"), scores, true, say("Score", "점수"));

  // Step 2: divide by the square root of d_k, so that the scores do not grow with the width.
  const Tensor scaled = mul(scores, 1.0 / std::sqrt(3.0));
  show(say("2. scaled = scores / sqrt(3)", "2. 스케일한 점수 = 점수 / sqrt(3)"), scaled, true,
       say("Score", "점수"));

  // Step 3: softmax makes each row positive and sum to 1.
  const Tensor weights = softmax(scaled);
  Heatmap map = show(say("3. weights = softmax(scaled)", "3. 가중치 = softmax(스케일한 점수)"),
                     weights, true);
  show(say("   without step 2 the softmax saturates", "   2단계가 없으면 소프트맥스가 포화됩니다"),
       softmax(scores), true);

  // Step 4: each word becomes the weighted mean of what all words say.
  const Tensor output = matmul(weights, v);
  show(say("4. output = weights V", "4. 출력 = 가중치 V"), output, false);

  if (argc > 1) {  // a folder for the lesson's picture
    map.title =
        say("Who looks at whom in \"The cat sat\"", "\"The cat sat\"에서 누가 누구를 보는가");
    map.colors = ColorMap::dusk;
    save_picture(std::string(argv[1]) + "/01.svg", map);
  }

  // The library does the same in one call, on [batch, heads, words, width].
  const auto heads = [](const Tensor& t) { return reshape(t, {1, 1, 3, 3}); };
  const Tensor fused = attention(heads(q), heads(k), heads(v));
  const Tensor difference = reshape(fused, {9}) - reshape(output, {9});
  const double worst = std::sqrt(max(difference * difference, 0).item());
  std::cout << say("attention(q, k, v) agrees to 0.00001: ",
                   "attention(q, k, v)와 0.00001까지 같음: ")
            << lesson::yes_or_no(worst < 1e-5) << "\n";
}
