// Builds a two-block Transformer and trains it on tensors of your own: rows of random tokens, every
// position of which is to name the token before it.
#include <heed/heed.h>

#include <iostream>

using namespace heed;

int main() {
  const Tensor x = argmax(randn({32, 12, 16}, {.seed = 1}), -1);
  const Tensor y = concat({x.slice(1, 0, 1), x.slice(1, 0, -1)}, 1);  // the token before
  Scope s = Scope::fresh(1);
  Embedding tokens(s / "tokens", 16, 64), positions(s / "positions", 12, 64);
  Transformer net(s / "net", {.num_layers = 2, .hidden_size = 64, .num_heads = 4, .causal = true});
  Linear head(s / "head", 64, 16);
  Optimizer optimizer(s.parameters(), {.lr = 3e-3});
  for (int step = 1; step <= 60; ++step) {
    const Tensor loss = cross_entropy(head(net(tokens(x) + positions(arange(12)))), y);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    if (step % 20 == 0) std::cout << "step " << step << ": loss " << loss.item() << "\n";
  }
  save_safetensors("model.safetensors", s.tensors());
}
