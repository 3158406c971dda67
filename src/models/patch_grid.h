#pragma once

#include "heed/io.h"
#include "heed/tensor.h"

namespace heed {

/// Rows and columns of an image or of its patches.
struct Grid {
  int64_t height = 0, width = 0;
  int64_t count() const { return height * width; }
  bool operator==(const Grid&) const = default;
};

/// image_size and patch_size: one number, or [height, width].
Grid sides(const Json& config, std::string_view key);

/// [to.count, from.count]: the bicubic resize of a grid as one matrix, so that it has a gradient.
Tensor resize_matrix(Grid from, Grid to);

}  // namespace heed
