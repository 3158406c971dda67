// An architecture of your own that loads, trains and saves like any other: register_model TEXT OUT
#include <heed/heed.h>

#include <iostream>

using namespace heed;

struct MyGpt : Model {
  MyGpt(const Json& config, const Scope& s)
      : words(s / "words", config.integer("vocab_size", 1, 1 << 20), 64),
        body(s / "body", {.num_layers = 2, .hidden_size = 64, .num_heads = 4, .causal = true}),
        head(s / "head", 64, config.integer("vocab_size", 1, 1 << 20)) {}
  ModelKind kind() const override { return ModelKind::decoder; }
  int64_t vocab_size() const override { return words.weight().size(0); }
  ModelOutput forward(const ModelInput& in) const override {
    const Tensor logits = head(body(words(in.input_ids), {.training = in.training}));
    if (!in.labels.defined()) return {.logits = logits};
    return {.loss = cross_entropy(logits.slice(1, 0, -1), in.labels.slice(1, 1)), .logits = logits};
  }
  Embedding words;
  Transformer body;
  Linear head;
};

int main(int, char** argv) {
  register_model(
      {.model_type = "my-gpt",
       .make = [](const Json& c, const Scope& s) { return std::make_unique<MyGpt>(c, s); },
       .train_tasks = {"lm"},
       .fresh_config =
           [](const FreshSizes& sizes) {
             return JsonBuilder().set("vocab_size", sizes.vocab_size);
           }});
  TrainResult r =
      train({.task = "lm", .data = argv[1], .out = argv[2], .arch = "my-gpt", .steps = 20});
  std::cout << "loss " << r.loss << ", " << load_model(argv[2])->model_type() << "\n";
}
