#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "heed/tensor.h"

namespace heed {

/// Which keys a query may attend to, by position. Query i is at position i + offset of the keys.
struct NoMask {};
struct Causal {
  int64_t offset = 0;  ///< 0: top-left (PyTorch's is_causal); T_k - T_q: bottom-right (a cache)
};
/// i + offset - left <= j <= i + offset + right; -1: no limit on that side. The first `prefix` keys
/// are visible to all queries (global tokens, attention sinks).
struct Window {
  int64_t left = -1;
  int64_t right = -1;
  int64_t offset = 0;
  int64_t prefix = 0;
};
using PositionMask = std::variant<NoMask, Causal, Window>;

enum class AttentionKernel {
  automatic,  ///< the fastest one that fits
  reference,  ///< the formula in plain steps; holds the whole matrix
  chunked,    ///< the formula for a chunk of queries at a time
  flash,      ///< tiles with an online softmax; no T×T buffer
};

struct AttentionOptions {
  PositionMask position = NoMask{};
  Tensor mask;         ///< bool or u8, true = attend; broadcastable to [B, Hq, Tq, Tk]
  Tensor bias;         ///< floating, added to the scaled scores, has a gradient; broadcastable
  Tensor key_padding;  ///< bool or u8 [B, Tk], true = real
  std::optional<double> scale;  ///< default 1/sqrt(D)
  double softcap = 0.0;  ///< s -> softcap * tanh(s / softcap) where > 0, before masks and bias
  double dropout = 0.0;  ///< on the weights
  bool training = false;
  int64_t first_example = 0;  ///< index of the first sequence in the whole batch, for dropout
  AttentionKernel kernel = AttentionKernel::automatic;
  int64_t chunk = 128;  ///< queries at a time of the chunked kernel
};

/// Computes scaled dot-product attention without materialising the score matrix.
///
/// `q` is [B, Hq, Tq, D], `k` [B, Hkv, Tk, D] and `v` [B, Hkv, Tk, Dv], where Hq must be a multiple
/// of Hkv; the result is [B, Hq, Tq, Dv]. All three may instead be [B, T, D] (one head) or [T, D]
/// (one head of one sequence): the result then has the same rank, masks may be [B, Tq, Tk] or
/// [Tq, Tk], and key_padding [Tk] where there is no batch. A query that may attend to no key yields
/// zeros, in the output and in the gradient. Masked keys never enter a result, so a NaN in them
/// does not leak. Throws `Error` if the shapes do not fit.
HEED_API Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options = {});

/// Computes attention within each of several sequences of different lengths, without padding.
///
/// The sequences are concatenated along the rows of `q` [N, Hq, D], `k` [M, Hkv, D] and `v`
/// [M, Hkv, Dv]; the result is [N, Hq, Dv]. `query_starts` and `key_starts` hold the first row of
/// each sequence, followed by the number of rows. Every sequence gets, bit for bit, what
/// attention() computes for it alone. Supports every option except masks and bias. Always uses the
/// flash kernel and does not notify observers.
HEED_API Tensor ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 std::span<const int64_t> query_starts,
                                 std::span<const int64_t> key_starts,
                                 const AttentionOptions& options = {});

/// The intermediate results of the formula, each [B, Hq, Tq, Tk] except the output.
struct AttentionSteps {
  Tensor scores;   ///< q·kᵀ
  Tensor scaled;   ///< × scale (and soft-capped)
  Tensor masked;   ///< + bias, -inf where masked
  Tensor weights;  ///< softmax; zeros in a fully masked row
  Tensor output;
  Tensor lse;  ///< [B, Hq, Tq]: log of the sum of exponentials; -inf in a fully masked row
};
/// Computes every step of the formula, without a gradient and without dropout.
HEED_API AttentionSteps attention_steps(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const AttentionOptions& options = {});

/// One attention call as the fast path computed it: enough to recompute any part of its weights
/// exactly.
struct AttentionRecord {
  Tensor q, k, v;
  Tensor output;
  AttentionOptions options;
  Tensor row_max;      ///< [B, Hq, Tq]: largest score in units of log2; 0 in a fully masked row
  Tensor row_inverse;  ///< [B, Hq, Tq]: 1 / Σ 2^(score - row_max); 0 in a fully masked row

  /// [B, Hq, Tq]: log of the sum of exponentials; -inf in a fully masked row.
  HEED_API Tensor lse() const;

  /// Weights of rows [row_begin, row_end) and keys [key_begin, key_end) of one head, before
  /// dropout.
  HEED_API Tensor weights(int64_t batch, int64_t head, int64_t row_begin, int64_t row_end,
                          int64_t key_begin, int64_t key_end) const;
  /// All weights of one head [Tq, Tk], or of all [B, Hq, Tq, Tk].
  HEED_API Tensor weights(int64_t batch, int64_t head) const;
  HEED_API Tensor all_weights() const;
};

/// Receives what models compute while it is in scope. Without an observer nothing is stored and
/// nothing slows down.
class HEED_API Observer {
 public:
  Observer();
  virtual ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Called for an activation by its hook name ("blocks.0.attn.hook_q"). The model continues with
  /// the returned tensor, which is how heads are ablated. Called only if wants(name).
  virtual Tensor activation(const std::string& name, const Tensor& value);
  virtual bool wants(const std::string& name);
  /// Called after each attention of the model, with its hook name ("blocks.0.attn").
  virtual void attention(const std::string& name, const AttentionRecord& record);
  /// May change the options of an attention before it runs, for example to disable the causal mask.
  virtual void adjust(const std::string& name, AttentionOptions& options);

  /// The innermost one in scope on this thread, or null.
  static Observer* current();

 private:
  Observer* outer_;
};

/// Prefixes the hook names below it: `HookScope hook_scope("blocks.0");` makes "attn" report as
/// "blocks.0.attn". Costs nothing if no Observer is in scope.
class HEED_API HookScope {
 public:
  explicit HookScope(const char* name, int64_t index = -1);
  ~HookScope();
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
  /// "blocks.0.attn" + "." + name
  static std::string path(const char* name = "");

 private:
  bool active_;
  size_t length_ = 0;
};

/// Passes an activation to the observer in scope, if any, and returns the tensor to continue with.
inline Tensor observe(const char* name, const Tensor& value) {
  Observer* observer = Observer::current();
  if (observer == nullptr) {
    return value;
  }
  const std::string path = HookScope::path(name);
  return observer->wants(path) ? observer->activation(path, value) : value;
}

}  // namespace heed
