#pragma once

#include "heed/ops.h"

namespace heed {

/// Class numbers of the rows as contiguous i64, and how many of them count.
struct Targets {
  Tensor ids;
  int64_t counted = 0;
};
/// Checks type, shape, range and that at least one row counts.
Targets checked_targets(const char* op, const Tensor& targets, const Shape& wanted, int64_t classes,
                        const CrossEntropyOptions& options);

}  // namespace heed
