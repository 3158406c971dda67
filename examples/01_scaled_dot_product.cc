// Lesson 1. Scaled dot-product attention, one step at a time, on "The cat sat".
#include <cmath>
#include <iostream>

#include "heed/attention.h"
#include "heed/ops.h"
#include "heed/picture.h"

using namespace heed;

namespace {

const std::vector<std::string> kWords{"The", "cat", "sat"};

Heatmap show(const std::string& title, const Tensor& values, bool by_word) {
  Heatmap map;
  map.title = title;
  map.panels.push_back({"", values});
  map.row_labels = kWords;
  if (by_word) {
    map.column_labels = kWords;
  } else {
    map.row_title = "Word";
    map.column_title = "Number";
  }
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
  show("1. scores = Q Kt", scores, true);

  // Step 2: divide by the square root of d_k, so that the scores do not grow with the width.
  const Tensor scaled = mul(scores, 1.0 / std::sqrt(3.0));
  show("2. scaled = scores / sqrt(3)", scaled, true);

  // Step 3: softmax makes each row positive and sum to 1.
  const Tensor weights = softmax(scaled);
  Heatmap map = show("3. weights = softmax(scaled)", weights, true);
  show("   without step 2 the softmax saturates", softmax(scores), true);

  // Step 4: each word becomes the weighted mean of what all words say.
  const Tensor output = matmul(weights, v);
  show("4. output = weights V", output, false);

  if (argc > 1) {  // a folder for the lesson's picture
    map.title = "Who looks at whom in \"The cat sat\"";
    map.colors = ColorMap::dusk;
    save_picture(std::string(argv[1]) + "/01.svg", map);
  }

  // The library does the same in one call, on [batch, heads, words, width].
  const auto heads = [](const Tensor& t) { return reshape(t, {1, 1, 3, 3}); };
  const Tensor fused = attention(heads(q), heads(k), heads(v));
  const Tensor difference = reshape(fused, {9}) - reshape(output, {9});
  const double worst = std::sqrt(max(difference * difference, 0).item());
  std::cout << "attention(q, k, v) agrees to 0.00001: " << (worst < 1e-5 ? "yes" : "no") << "\n";
}
