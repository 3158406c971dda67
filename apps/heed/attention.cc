#include "heed/attention.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/check.h"
#include "heed/autograd.h"
#include "heed/command.h"
#include "heed/io.h"

namespace heed::app {
namespace {

struct Options {
  std::string input;
  std::string output;
  std::string variant = "scaled-dot";
  std::string kernel = "automatic";
  std::string causal = "none";
  std::vector<int64_t> window;
  int64_t chunk = 128;
  std::optional<double> scale;
  double softcap = 0.0;
  bool no_weights = false;
};

/// Keeps what the fast path hands out, to recompute its weights.
struct KeepRecord : Observer {
  std::optional<AttentionRecord> record;
  void attention(const std::string& /*name*/, const AttentionRecord& seen) override {
    record = seen;
  }
};

Tensor find(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? Tensor() : found->second;
}

Tensor require(const TensorMap& tensors, const std::string& name, const std::string& file) {
  const Tensor tensor = find(tensors, name);
  check_data(tensor.defined(), file, "has no tensor '{}'", name);
  return tensor;
}

Tensor leaf(const Tensor& tensor) { return tensor.detach().set_requires_grad(true); }

AttentionOptions attention_options(const Options& given, const TensorMap& tensors, int64_t queries,
                                   int64_t keys) {
  AttentionOptions options;
  options.scale = given.scale;
  options.softcap = given.softcap;
  options.chunk = given.chunk;
  options.key_padding = find(tensors, "key_padding");
  if (given.kernel == "reference") {
    options.kernel = AttentionKernel::reference;
  } else if (given.kernel == "chunked") {
    options.kernel = AttentionKernel::chunked;
  } else if (given.kernel == "flash") {
    options.kernel = AttentionKernel::flash;
  }
  const Tensor mask = find(tensors, "mask");
  if (mask.defined() && is_floating(mask.dtype())) {
    options.bias = leaf(mask);
  } else {
    options.keep = mask;
  }
  const bool causal = given.causal != "none";
  const int64_t offset = given.causal == "bottom-right" ? keys - queries : 0;
  if (!given.window.empty()) {
    Window window{given.window[0], given.window[1], offset, 0};
    if (causal) {
      window.right = 0;
    }
    options.position = window;
  } else if (causal) {
    options.position = Causal{offset};
  }
  return options;
}

TensorMap scaled_dot(const Options& given, const TensorMap& tensors) {
  const Tensor q = leaf(require(tensors, "q", given.input));
  const Tensor k = leaf(require(tensors, "k", given.input));
  const Tensor v = leaf(require(tensors, "v", given.input));
  check_data(q.rank() == 4 && k.rank() == 4, given.input,
             "q {} and k {} must be [batch, heads, length, depth]", q.shape().to_string(),
             k.shape().to_string());
  const AttentionOptions options = attention_options(given, tensors, q.size(2), k.size(2));
  const Tensor grad_output = find(tensors, "grad_output");
  TensorMap results;
  KeepRecord keep;
  const Tensor output = attention(q, k, v, options);
  results["output"] = output;
  results["lse"] = keep.record->lse();
  if (!given.no_weights) {
    results["weights"] = keep.record->all_weights();
  }
  if (grad_output.defined()) {
    check_data(grad_output.shape() == output.shape(), given.input,
               "grad_output {} must have the output's shape {}", grad_output.shape().to_string(),
               output.shape().to_string());
    backward(output, grad_output.to(output.dtype()));
    results["grad_q"] = q.grad();
    results["grad_k"] = k.grad();
    results["grad_v"] = v.grad();
    if (options.bias.defined()) {
      results["grad_mask"] = options.bias.grad();
    }
  }
  return results;
}

int run(const Options& given, const Common& common) {
  const TensorMap tensors = load_safetensors(given.input);
  TensorMap results = scaled_dot(given, tensors);
  for (auto& [name, tensor] : results) {
    tensor = tensor.detach().contiguous();
  }
  save_safetensors(given.output, results);
  if (common.json) {
    std::string shapes;
    for (const auto& [name, tensor] : results) {
      shapes +=
          fmt::format("{}\"{}\":{}", shapes.empty() ? "" : ",", name, tensor.shape().to_string());
    }
    std::printf("{%s}\n", shapes.c_str());
  } else if (!common.quiet) {
    for (const auto& [name, tensor] : results) {
      std::printf("%-12s %s\n", name.c_str(), tensor.shape().to_string().c_str());
    }
  }
  return 0;
}

std::function<int()> setup(CLI::App& app, const Common& common) {
  auto given = std::make_shared<Options>();
  app.add_option("--input", given->input, "safetensors with q, k, v and what else the call takes")
      ->required();
  app.add_option("--output", given->output, "safetensors to write")->required();
  app.add_option("--kernel", given->kernel, "How to compute it")
      ->check(CLI::IsMember({"automatic", "reference", "chunked", "flash"}))
      ->capture_default_str();
  app.add_option("--chunk", given->chunk, "Queries at a time of the chunked kernel")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--causal", given->causal, "Hide later keys, counted from which corner")
      ->check(CLI::IsMember({"none", "top-left", "bottom-right"}))
      ->capture_default_str();
  app.add_option("--scale", given->scale, "Factor of the scores (default: 1/sqrt(depth))");
  app.add_option("--softcap", given->softcap, "Limit scores to ±S by S·tanh(s/S); 0: off")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--window", given->window, "Keys visible to the left and right: L,R; -1: no limit")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
  app.add_flag("--no-weights", given->no_weights, "Leave the weights out (long sequences)");
  return [given, &common] { return run(*given, common); };
}

const Registration registration{
    {"attention",
     "Run one attention call on given tensors, with weights and gradients",
     {"heed attention --input in.safetensors --output out.safetensors --causal top-left",
      "heed attention --input in.safetensors --output out.safetensors --kernel flash --window "
      "128,0"},
     setup}};

}  // namespace
}  // namespace heed::app
