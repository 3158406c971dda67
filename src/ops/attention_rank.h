#pragma once

#include "heed/attention.h"

namespace heed {

/// Inputs of attention with four axes each: [T, D] becomes [1, 1, T, D] and [B, T, D] becomes
/// [B, 1, T, D]; masks, bias and key padding follow.
struct FourAxes {
  Tensor q, k, v;
  AttentionOptions options;
};

/// Whether q, k and v all have two or all have three axes.
bool lacks_head_axes(const Tensor& q, const Tensor& k, const Tensor& v);
FourAxes with_head_axes(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionOptions& options);
/// A result with the axes that with_head_axes() put in front taken away; `rank` is q's.
Tensor without_head_axes(const Tensor& x, int rank);

}  // namespace heed
