#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/tensor.h"

// Differentiable operations. Every function checks its arguments, throws Error naming the op and
// the shapes, and records its gradient. Axes may be negative. Floating results have the inputs'
// dtype; f16 and bf16 are computed in f32.

namespace heed {

// Views (no copy where strides allow it).
HEED_API Tensor reshape(const Tensor& x, const Shape& shape);  ///< one dimension may be -1
HEED_API Tensor transpose(const Tensor& x, int axis_a = -2, int axis_b = -1);
HEED_API Tensor permute(const Tensor& x, const Shape& order);
HEED_API Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end);  ///< [begin, end)
HEED_API Tensor select(const Tensor& x, int axis, int64_t index);              ///< drops the axis
HEED_API Tensor expand(const Tensor& x, const Shape& shape);                   ///< broadcast
HEED_API Tensor squeeze(const Tensor& x, int axis);
HEED_API Tensor unsqueeze(const Tensor& x, int axis);
HEED_API Tensor contiguous(const Tensor& x);
HEED_API Tensor cast(const Tensor& x, DType type);

// Elementwise, NumPy's broadcasting.
HEED_API Tensor add(const Tensor& a, const Tensor& b);
HEED_API Tensor sub(const Tensor& a, const Tensor& b);
HEED_API Tensor mul(const Tensor& a, const Tensor& b);
HEED_API Tensor div(const Tensor& a, const Tensor& b);
HEED_API Tensor add(const Tensor& a, double b);  ///< integers take a whole number
HEED_API Tensor mul(const Tensor& a, double b);  ///< likewise
HEED_API Tensor neg(const Tensor& x);
HEED_API Tensor abs(const Tensor& x);  ///< the gradient at 0 is 0
/// x limited to [low, high]; the gradient is 0 where it was outside. NaN stays NaN.
HEED_API Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high);
HEED_API Tensor pow(const Tensor& x, double exponent);
HEED_API Tensor maximum(const Tensor& a, const Tensor& b);  ///< of equals, `a` takes the gradient
HEED_API Tensor minimum(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return add(a, -b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, double b) { return mul(a, 1.0 / b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(double a, const Tensor& b) { return add(neg(b), a); }
inline Tensor operator/(double a, const Tensor& b) { return div(Tensor::scalar(a, b.dtype()), b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

// Comparisons, element by element, with broadcasting; bool, no gradient. Two tensors have one
// dtype.
enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal };
HEED_API Tensor compare(Comparison op, const Tensor& a, const Tensor& b);
HEED_API Tensor compare(Comparison op, const Tensor& a, double b);
#define HEED_COMPARISON(symbol, name, mirrored)                     \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { \
    return compare(Comparison::name, a, b);                         \
  }                                                                 \
  inline Tensor operator symbol(const Tensor& a, double b) {        \
    return compare(Comparison::name, a, b);                         \
  }                                                                 \
  inline Tensor operator symbol(double a, const Tensor& b) {        \
    return compare(Comparison::mirrored, b, a);                     \
  }
HEED_COMPARISON(==, equal, equal)
HEED_COMPARISON(!=, not_equal, not_equal)
HEED_COMPARISON(<, less, greater)
HEED_COMPARISON(<=, less_equal, greater_equal)
HEED_COMPARISON(>, greater, less)
HEED_COMPARISON(>=, greater_equal, less_equal)
#undef HEED_COMPARISON
// Of bool tensors, with broadcasting.
HEED_API Tensor logical_and(const Tensor& a, const Tensor& b);
HEED_API Tensor logical_or(const Tensor& a, const Tensor& b);
HEED_API Tensor logical_not(const Tensor& x);
inline Tensor operator&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
inline Tensor operator~(const Tensor& x) { return logical_not(x); }
HEED_API bool all(const Tensor& x);               ///< no element of a bool tensor is false
HEED_API bool any(const Tensor& x);               ///< some element of a bool tensor is true
HEED_API int64_t count_nonzero(const Tensor& x);  ///< of any dtype

HEED_API Tensor sin(const Tensor& x);
HEED_API Tensor cos(const Tensor& x);
HEED_API Tensor exp(const Tensor& x);
HEED_API Tensor log(const Tensor& x);
HEED_API Tensor sqrt(const Tensor& x);
HEED_API Tensor tanh(const Tensor& x);
HEED_API Tensor sigmoid(const Tensor& x);

enum class Activation { none, relu, gelu, gelu_tanh, silu, tanh, sigmoid, quick_gelu };
HEED_API Tensor activate(const Tensor& x, Activation kind);
HEED_API Tensor relu(const Tensor& x);
HEED_API Tensor gelu(const Tensor& x);       ///< erf: BERT, ViT
HEED_API Tensor gelu_tanh(const Tensor& x);  ///< tanh approximation: GPT-2, T5
HEED_API Tensor silu(const Tensor& x);
HEED_API Tensor quick_gelu(const Tensor& x);  ///< x · sigmoid(1.702 x): CLIP
/// activate(gate) * up in one pass (SwiGLU, T5's gated GELU).
HEED_API Tensor gated(const Tensor& gate, const Tensor& up, Activation kind);

// Reductions.
HEED_API Tensor sum(const Tensor& x);
HEED_API Tensor sum(const Tensor& x, int axis, bool keep_axis = false);
HEED_API Tensor mean(const Tensor& x);
HEED_API Tensor mean(const Tensor& x, int axis, bool keep_axis = false);
HEED_API Tensor max(const Tensor& x, int axis, bool keep_axis = false);
HEED_API Tensor min(const Tensor& x, int axis, bool keep_axis = false);
HEED_API Tensor argmax(const Tensor& x, int axis);  ///< i64, no gradient; the first of equals
HEED_API Tensor argmin(const Tensor& x, int axis);  ///< likewise

/// Elements of an axis in some order, and where they were.
struct Ordered {
  Tensor values;   ///< with a gradient
  Tensor indices;  ///< i64, of the same shape
};
/// The k largest (or smallest) elements along an axis, in order; of equals the first. NaN counts as
/// the largest number.
HEED_API Ordered topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true);
/// All elements along an axis in order; equal ones stay in theirs. NaN counts as the largest
/// number.
HEED_API Ordered sort(const Tensor& x, int axis = -1, bool descending = false);

// Rows.
HEED_API Tensor softmax(const Tensor& x, int axis = -1);  ///< a row of -inf gives zeros
HEED_API Tensor log_softmax(const Tensor& x, int axis = -1);
/// Over the last axis; weight and bias [n], bias may be undefined.
HEED_API Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
HEED_API Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

// Structure.
HEED_API Tensor concat(const std::vector<Tensor>& parts, int axis);
HEED_API std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis);
/// Pieces of `size` along an axis; the last may be shorter.
HEED_API std::vector<Tensor> chunks(const Tensor& x, int64_t size, int axis);
HEED_API Tensor stack(const std::vector<Tensor>& parts, int axis);
/// out[i][j][k] = x[i][index[i][j][k]][k] for axis 1 and so on: torch.gather.
HEED_API Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// Rows of x along axis 0: out[i] = x[index[i]]; the gradient adds up repeated rows.
HEED_API Tensor index_rows(const Tensor& x, const Tensor& index);
HEED_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
HEED_API Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// weight [n, d], ids i64/i32 of any shape -> ids.shape + [d].
HEED_API Tensor embedding(const Tensor& weight, const Tensor& ids);
/// The examples that the rows of a tensor belong to. An example's dropout mask does not depend on
/// the rest of its batch, so that a batch gives the same masks whole, in parts, or spread over
/// ranks.
struct ExampleRows {
  int64_t first = 0;  ///< index of the first example in the whole batch
  int64_t count = 0;  ///< number of examples; 0: the tensor is drawn for as a whole
  std::span<const int64_t>
      starts;  ///< first row of each example and the number of rows; empty: equal
};
/// Zeroes each element with probability p and scales the others by 1/(1-p). The mask comes from the
/// thread's random state. Does nothing where p is 0 or `training` is false.
HEED_API Tensor dropout(const Tensor& x, double p, bool training, const ExampleRows& examples = {});
/// [B, C, H, W] -> [B, (H/p)*(W/p), C*p*p]: the non-overlapping patches, row-major.
HEED_API Tensor unfold_patches(const Tensor& images, int64_t patch_height, int64_t patch_width);

// Products.
/// [..., m, k] x [..., k, n] -> [..., m, n], leading axes broadcast.
HEED_API Tensor matmul(const Tensor& a, const Tensor& b);

/// How a weight lies in its checkpoint.
enum class WeightLayout {
  out_in,  ///< [out, in]: PyTorch's Linear
  in_out,  ///< [in, out]: GPT-2's Conv1D
};
struct LinearOptions {
  WeightLayout layout = WeightLayout::out_in;
  Activation activation = Activation::none;  ///< applied to x·W + bias, on the tile while in cache
  Tensor residual = {};                      ///< added last; the result's shape
};
/// x [..., in] times weight, plus bias (may be undefined). The weight may be f32, f64, f16, bf16 or
/// quantised (any block type: [out, in] only, no gradient). A row's result does not depend on the
/// rows beside it nor on the thread count.
HEED_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const LinearOptions& options = {});

// Quantised weights, without history.
/// A floating tensor as blocks of `type`; its rows must be a multiple of the type's block. q8_0 and
/// q4_0 round as ggml does; the other types search their scales by least squares. `importance`,
/// where it is defined, is f32 [columns]: how much the square of an error in a column counts. The
/// I-quants below four bits, MXFP4 and the ternary types are refused: they are only read.
HEED_API Tensor quantize(const Tensor& x, DType type, const Tensor& importance = {});
/// A quantised or floating tensor as f32; any other tensor as it is.
HEED_API Tensor dequantize(const Tensor& x);

// Losses (means over the positions that count).
struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
};
/// logits [..., classes], targets i64 [...].
HEED_API Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                              const CrossEntropyOptions& options = {});
/// cross_entropy(linear(x, weight, bias), targets) in chunks of rows: the logits of a whole batch
/// never exist in memory.
HEED_API Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     const Tensor& targets,
                                     const CrossEntropyOptions& options = {});
HEED_API Tensor mse(const Tensor& prediction, const Tensor& target);

/// Rotates pairs of x [N, heads, width] by the angles of each row's position: cos and sin
/// [positions, width/2] f32, position i64 [N]. Pairs are (i, i + width/2) or, interleaved,
/// (2i, 2i + 1).
HEED_API Tensor rotary(const Tensor& x, const Tensor& position, const Tensor& cos,
                       const Tensor& sin, bool interleaved);

/// FNet: the real part of the Fourier transform over sequence and hidden, x [B, T, E]. There is no
/// mask: padding changes results.
HEED_API Tensor fnet_mixing(const Tensor& x);

// Recurrent cells. Gate order i, f, g, o (LSTM) and r, z, n (GRU), PyTorch's.
struct LstmState {
  Tensor h;  ///< [B, hidden]
  Tensor c;  ///< [B, hidden]
};
HEED_API LstmState lstm_cell(const Tensor& x, const LstmState& state, const Tensor& weight_ih,
                             const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh);
HEED_API Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih,
                         const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh);

// Precision ---------------------------------------------------------------------------------------

/// While one of these lives, run_blocks() on this thread computes with activations of this type
/// (f32, bf16 or f16). Parameters, their gradients and every sum inside a product, norm or softmax
/// stay in f32, so nothing else of a training step changes.
class HEED_API ActivationScope {
 public:
  explicit ActivationScope(DType type);
  ~ActivationScope();
  ActivationScope(const ActivationScope&) = delete;
  ActivationScope& operator=(const ActivationScope&) = delete;

 private:
  std::optional<DType> before_;
};
/// That of the scope, or outside any scope what set_activation_type() said.
HEED_API DType activation_type();

/// Makes models run with activations of this type (f32 or bf16) on every thread that has no
/// ActivationScope. With bf16, load_model() rounds matrices of f32 to bf16. Passes with a cache
/// (generation) keep activations in f32, because they are bound by reading the weights.
HEED_API void set_activation_type(DType type);

/// Products with a quantised weight round their inputs to 8 bits, block by block. While one of
/// these lives, Linear layers of this thread dequantise such a weight and read inputs as they are:
/// a sum of inputs gives the sum of their outputs then.
class HEED_API UnroundedInputScope {
 public:
  UnroundedInputScope();
  ~UnroundedInputScope();
  UnroundedInputScope(const UnroundedInputScope&) = delete;
  UnroundedInputScope& operator=(const UnroundedInputScope&) = delete;

 private:
  bool before_;
};
/// Whether this thread is inside such a scope.
HEED_API bool reads_unrounded_inputs();

/// f32 rows as a product outside the blocks (an LM head) is to read them: in bf16 inside an
/// ActivationScope of bf16, else as they are.
HEED_API Tensor in_products(const Tensor& rows);

/// Keeps gradients of f16 activations away from 0: the loss is multiplied by `scale`, the
/// optimizer divides. An overflow halves it, `kGrowAfter` good steps double it. 1 for other types.
struct HEED_API LossScale {
  static constexpr int64_t kGrowAfter = 2000;
  static constexpr double kFirst = 65536.0;
  static constexpr double kLargest = 16777216.0;

  double scale = 1.0;
  int64_t good = 0;  ///< steps since the last change

  static LossScale for_type(DType type) { return {type == DType::f16 ? kFirst : 1.0, 0}; }
  /// After a step of f16; returns whether an overflow is explained by the scale.
  bool update(bool finite);
};

}  // namespace heed
