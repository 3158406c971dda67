// An architecture of your own that loads, trains and saves like any other: register_model TEXT OUT
#include <heed/heed.h>

#include <iostream>

using namespace heed;

struct MyGpt : Model {
  MyGpt(const Json& config, const Scope& s)
      : words(s / "words", config.integer("vocab_size"), 64),
        body(s / "body", {.num_layers = 2, .hidden_size = 64, .num_heads = 4, .causal = true}),
        head(s / "head", 64, config.integer("vocab_size")) {}
  ModelOutput do_forward(const ModelInput& in) const override {
    return causal_lm_output(head(body(words(in.input_ids), {.training = in.training})), in.labels);
  }
  Embedding words;
  Transformer body;
  Linear head;
};

int main(int, char** argv) {
  register_model<MyGpt>("my-gpt");
  train({.task = "lm", .data = argv[1], .out = argv[2], .arch = "my-gpt", .steps = 20});
  std::cout << load_model(argv[2])->model_type() << "\n";
}
