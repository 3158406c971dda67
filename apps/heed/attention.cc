#include <memory>

#include "base/check.h"
#include "base/language.h"
#include "base/printable.h"
#include "heed/attention_call.h"
#include "heed/command.h"
#include "heed/inspect.h"
#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::app {
namespace {

/// Keeps what the fast path hands out, to recompute its weights.
struct KeepRecord : Observer {
  std::optional<AttentionRecord> record;
  void attention(const std::string& /*name*/, const AttentionRecord& seen) override {
    record = seen;
  }
};

/// A result without the axes that q, k and v of two or three axes do not have.
Tensor with_rank(const Tensor& x, int rank) {
  const Tensor of_head = rank < 4 ? squeeze(x, 1) : x;
  return rank == 2 ? squeeze(of_head, 0) : of_head;
}

const AttentionVariant& variant_of(const AttentionCall& call) {
  for (const AttentionVariant& variant : attention_variants()) {
    if (variant.name == call.variant) {
      return variant;
    }
  }
  fail(ErrorKind::usage, "attention", "unknown variant '{}'", call.variant);
}

TensorMap compute(const AttentionCall& call) {
  AttentionTensors tensors(load_safetensors(call.input), call.input);
  const AttentionVariant& variant = variant_of(call);
  check_followed(variant, call, tensors);
  const Tensor grad_output = tensors.find("grad_output");
  TensorMap results;
  Tensor output;
  if (variant.forms_weights) {
    KeepRecord keep;
    output = variant.run(call, tensors);
    results["lse"] = keep.record->lse();
    if (!call.no_weights) {
      results["weights"] = keep.record->all_weights();
    }
  } else {
    output = variant.run(call, tensors);
  }
  if (output.rank() == 4) {
    const int rank = tensors.require("q").rank();
    output = with_rank(output, rank);
    for (auto& [name, tensor] : results) {
      tensor = with_rank(tensor, rank);
    }
  }
  results["output"] = output;
  if (grad_output.defined()) {
    check_data(grad_output.shape() == output.shape(), call.input,
               "grad_output {} must have the output's shape {}", grad_output.shape().to_string(),
               output.shape().to_string());
    backward(output, grad_output.to(output.dtype()));
    for (const auto& [name, leaf] : tensors.leaves()) {
      if (leaf.grad().defined()) {
        results["grad_" + name] = leaf.grad();
      }
    }
  }
  for (auto& [name, tensor] : results) {
    tensor = tensor.detach().contiguous();
  }
  return results;
}

WeightsReport validate(const AttentionCall& call, const TensorMap& results) {
  const auto weights = results.find("weights");
  if (weights == results.end()) {
    fail(ErrorKind::usage, "attention", "--validate wants weights, which this call does not give");
  }
  Tensor all = weights->second;
  while (all.rank() < 4) {
    all = unsqueeze(all, 0);
  }
  return validate_weights(all, is_causal(call), causal_offset(call, all.size(2), all.size(3)));
}

void print_text(const TensorMap& results, const WeightsReport* report) {
  for (const auto& [name, tensor] : results) {
    fmt::print("{:<28} {}\n", printable(name), tensor.shape().to_string());
  }
  if (report == nullptr) {
    return;
  }
  fmt::print(
      "{}",
      tell("weights are {}: {} rows, {} without keys, sums within {:.2g} of 1, range {:.3g} … "
           "{:.3g}, {} not finite, {:.3g} on later keys\n",
           report->ok() ? tell("valid") : tell("NOT valid"), report->rows, report->empty_rows,
           report->worst_sum_error, report->smallest, report->largest, report->not_finite,
           report->future));
  for (const std::string& problem : report->problems) {
    fmt::print("  {}\n", translate_message(problem));
  }
}

void print_json(const TensorMap& results, const WeightsReport* report) {
  std::string shapes;
  for (const auto& [name, tensor] : results) {
    shapes +=
        fmt::format("{}\"{}\":{}", shapes.empty() ? "" : ",", name, tensor.shape().to_string());
  }
  if (report != nullptr) {
    shapes += fmt::format(
        ",\"validation\":{{\"valid\":{},\"rows\":{},\"empty_rows\":{},\"worst_sum_error\":{},"
        "\"smallest\":{},\"largest\":{},\"not_finite\":{},\"future\":{}}}",
        report->ok(), report->rows, report->empty_rows, report->worst_sum_error, report->smallest,
        report->largest, report->not_finite, report->future);
  }
  fmt::print("{{{}}}\n", shapes);
}

int run(const AttentionCall& call, const Common& common) {
  const TensorMap results = compute(call);
  save_safetensors(call.output, results);
  std::optional<WeightsReport> report;
  if (call.validate) {
    report = validate(call, results);
  }
  const WeightsReport* found = report ? &*report : nullptr;
  if (common.json) {
    print_json(results, found);
  } else if (!common.quiet) {
    print_text(results, found);
  }
  return found == nullptr || found->ok() ? 0 : 1;
}

void add_variant_options(OptionTable& table, AttentionCall& call) {
  constexpr int64_t kMost = int64_t{1} << 30;
  constexpr int64_t kMostDrawn = int64_t{1} << 20;  // each takes memory and time
  const auto add = [&](const char* name, auto& value, const char* text) -> Option& {
    return table.add(name, &value, text).group("Variants");
  };
  add("--attention-window", call.attention_window, "longformer: keys on both sides together (512)")
      .range(1, kMost);
  add("--block-size", call.block_size, "bigbird: length of a block").range(1, kMost);
  add("--random-blocks", call.random_blocks, "bigbird: random blocks per row, if none are given")
      .range(0, kMostDrawn);
  table.add("--hf-compat", &call.hf_compat, "bigbird: random blocks as Hugging Face's eval mode")
      .group("Variants");
  add("--features", call.features, "performer: random features, where no projection is given")
      .range(1, kMostDrawn);
  add("--height", call.height, "swin: rows of the grid").range(1, kMost);
  add("--width", call.width, "swin: columns of the grid").range(1, kMost);
  add("--window-size", call.window_size, "swin: side of a window").range(1, kMost);
  add("--shift", call.shift, "swin: how far windows are shifted").range(0, kMost);
  add("--seed", call.seed, "bigbird, performer: of what is drawn");
}

std::string variant_help() {
  std::string text = tell("Which attention to compute, and the tensors it reads besides q, k, v:");
  for (const AttentionVariant& variant : attention_variants()) {
    text += "\n  " + variant.name + (variant.tensors.empty() ? "" : ": " + variant.tensors);
  }
  return text + "\n ";
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto call = std::make_shared<AttentionCall>();
  table
      .add("--input", &call->input,
           "safetensors: q [B,Hq,Tq,D], k, v [B,Hkv,Tk,D], or all [B,T,D] or [T,D]; mask (u8, "
           "bool: 1 = attend; float: "
           "added), key_padding u8 [B,Tk], grad_output where wanted")
      .file()
      .required();
  table
      .add("--output", &call->output,
           "safetensors to write: output, weights, lse, and gradients where grad_output came "
           "in")
      .file()
      .required();
  std::vector<std::string> names;
  for (const AttentionVariant& variant : attention_variants()) {
    names.push_back(variant.name);
  }
  table.add("--variant", &call->variant, variant_help()).choices(names);
  table.add("--kernel", &call->kernel, "How to compute it")
      .choices({"automatic", "reference", "chunked", "flash"});
  table.add("--chunk", &call->chunk, "Queries at a time of the chunked kernel").range(1, 1 << 30);
  table.add("--causal", &call->causal, "Causal mask, aligned to this corner")
      .choices({"none", "top-left", "bottom-right"});
  table
      .add("--causal-offset", &call->causal_offset,
           "Hide keys after i + N from query i: N past keys in a cache")
      .range(-1e12, 1e12);
  table.add("--scale", &call->scale, "Factor of the scores (default: 1/sqrt(depth))");
  table.add("--softcap", &call->softcap, "Limit scores to ±S by S·tanh(s/S); 0: off")
      .range(0, 1e30);
  table.add("--window", &call->window, "Keys visible to the left and right: L,R; -1: no limit")
      .count(2)
      .range(-1, 1e12);
  table.add("--no-weights", &call->no_weights, "Leave the weights out (long sequences)");
  table.add("--validate", &call->validate,
            "Check that weights sum to 1, lie in 0 … 1 and see no later key; exit 1 where not");
  add_variant_options(table, *call);
  return [call, &common] { return run(*call, common); };
}

const Registration registration{
    {"attention",
     "Run one attention call on given tensors, with weights and gradients",
     {"heed attention --input in.safetensors --output out.safetensors --causal top-left",
      "heed attention --input in.safetensors --output out.safetensors --variant swin --height 8 "
      "--width 8 --window-size 4"},
     setup}};

}  // namespace
}  // namespace heed::app
