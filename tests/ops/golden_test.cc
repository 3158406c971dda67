#include <gtest/gtest.h>

#include <cmath>

#include "heed/io.h"
#include "heed/ops.h"
#include "support/check.h"
#include "support/data.h"

namespace heed::test {
namespace {

/// A golden file: its tensors as leaves, and the comparison of outputs and gradients.
class Golden {
 public:
  Golden(const std::string& name, DType type)
      : file_(load_safetensors(golden("ops/" + name + ".safetensors"))),
        metadata_(safetensors_metadata(golden("ops/" + name + ".safetensors"))),
        type_(type),
        name_(name) {}

  Tensor leaf(const std::string& name) {
    if (!file_.contains(name)) {
      return Tensor();
    }
    leaves_[name] = file_.at(name).to(type_).clone().set_requires_grad(true);
    return leaves_[name];
  }
  double number(const std::string& key) const { return std::stod(metadata_.at(key)); }

  void compare(const Tensor& output) {
    const Tolerance tolerance = elementwise(DType::f32);  // the files are f32
    expect_close(output, file_.at("output"), tolerance, name_ + " output");
    backward(output, file_.at("grad_output").to(type_));
    ASSERT_FALSE(leaves_.empty());
    for (const auto& [name, leaf] : leaves_) {
      // A gradient is a sum over rows: its rounding grows with the size of its largest element.
      const Tensor expected = file_.at("grad_" + name);
      double largest = 0.0;
      for (const double value : expected.to_doubles()) {
        largest = std::max(largest, std::abs(value));
      }
      const double rounding = reduction(largest, static_cast<double>(leaf.numel()), DType::f32);
      expect_close(leaf.grad(), expected, {tolerance.relative, tolerance.absolute + rounding},
                   name_ + " grad_" + name);
    }
  }

 private:
  TensorMap file_;
  Metadata metadata_;
  DType type_;
  std::string name_;
  std::map<std::string, Tensor> leaves_;
};

TEST(Golden, Norms) {
  for (const DType type : {DType::f32, DType::f64}) {
    for (const char* size : {"odd", "one", "small"}) {
      Golden layer("layer_norm_" + std::string(size), type);
      layer.compare(layer_norm(layer.leaf("input"), layer.leaf("weight"), layer.leaf("bias"),
                               layer.number("eps")));
      Golden rms("rms_norm_" + std::string(size), type);
      rms.compare(rms_norm(rms.leaf("input"), rms.leaf("weight"), rms.number("eps")));
    }
  }
}

TEST(Golden, RecurrentCells) {
  const TensorMap names = load_safetensors(golden("ops/lstm_cell.safetensors"));
  for (const DType type : {DType::f32, DType::f64}) {
    Golden lstm("lstm_cell", type);
    const LstmState state = lstm_cell(lstm.leaf("input"), {lstm.leaf("hidden"), lstm.leaf("cell")},
                                      lstm.leaf("weight_ih"), lstm.leaf("weight_hh"),
                                      lstm.leaf("bias_ih"), lstm.leaf("bias_hh"));
    lstm.compare(concat({state.h, state.c}, 0));
    Golden gru("gru_cell", type);
    gru.compare(gru_cell(gru.leaf("input"), gru.leaf("hidden"), gru.leaf("weight_ih"),
                         gru.leaf("weight_hh"), gru.leaf("bias_ih"), gru.leaf("bias_hh")));
  }
}

}  // namespace
}  // namespace heed::test
