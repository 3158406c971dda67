#include "support/attention_case.h"

#include <string>

namespace heed::test {

AttentionCase load_attention_case(const std::filesystem::path& path, DType type) {
  AttentionCase result;
  TensorMap tensors = load_safetensors(path);
  const Metadata metadata = safetensors_metadata(path);
  const auto input = [&](const char* name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? Tensor() : found->second;
  };
  const auto wants_gradient = [&](const Tensor& x) {
    Tensor copy = x.to(type).clone();
    copy.set_requires_grad(true);
    return copy;
  };
  result.q = wants_gradient(input("q"));
  result.k = wants_gradient(input("k"));
  result.v = wants_gradient(input("v"));
  result.grad_output = input("grad_output").to(type);
  const Tensor mask = input("mask");
  if (mask.defined() && is_floating(mask.dtype())) {
    result.options.bias = wants_gradient(mask);
  } else {
    result.options.mask = mask;
  }
  result.options.key_padding = input("key_padding");
  const auto option = [&](const char* name) {
    const auto found = metadata.find(name);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (!option("scale").empty()) {
    result.options.scale = std::stod(option("scale"));
  }
  if (!option("softcap").empty()) {
    result.options.softcap = std::stod(option("softcap"));
  }
  const std::string causal = option("causal");
  const int64_t offset =
      causal == "bottom-right" ? result.k.size(2) - result.q.size(2) : int64_t{0};
  const std::string window = option("window");
  if (!window.empty()) {
    const size_t comma = window.find(',');
    Window limits{std::stoll(window.substr(0, comma)), std::stoll(window.substr(comma + 1)), offset,
                  0};
    if (!causal.empty() && causal != "none" && (limits.right < 0 || limits.right > 0)) {
      limits.right = 0;
    }
    result.options.position = limits;
  } else if (!causal.empty() && causal != "none") {
    result.options.position = Causal{offset};
  }
  for (auto& [name, tensor] : tensors) {
    result.expected[name] = tensor;
  }
  return result;
}

}  // namespace heed::test
