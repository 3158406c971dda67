#include "ops/attention_rank.h"

#include "ops/common.h"

namespace heed {
namespace {

/// A mask or bias of one head: [B, Tq, Tk] needs an axis for the heads, [Tq, Tk] broadcasts as it
/// is.
Tensor mask_with_head_axes(const Tensor& mask) {
  return mask.defined() && mask.rank() == 3 ? unsqueeze(mask, 1) : mask;
}

}  // namespace

bool lacks_head_axes(const Tensor& q, const Tensor& k, const Tensor& v) {
  return q.defined() && k.defined() && v.defined() && (q.rank() == 2 || q.rank() == 3) &&
         k.rank() == q.rank() && v.rank() == q.rank();
}

FourAxes with_head_axes(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionOptions& options) {
  const auto lifted = [](const Tensor& x) {
    return x.rank() == 3 ? unsqueeze(x, 1) : unsqueeze(unsqueeze(x, 0), 0);
  };
  FourAxes all{lifted(q), lifted(k), lifted(v), options};
  all.options.mask = mask_with_head_axes(options.mask);
  all.options.bias = mask_with_head_axes(options.bias);
  if (options.key_padding.defined() && options.key_padding.rank() == 1) {
    all.options.key_padding = unsqueeze(options.key_padding, 0);
  }
  return all;
}

Tensor without_head_axes(const Tensor& x, int rank) {
  return rank == 3 ? squeeze(x, 1) : squeeze(squeeze(x, 0), 0);
}

}  // namespace heed
