#pragma once

#include <string>
#include <vector>

#include "heed/models.h"

namespace heed {

/// Numbers separated by commas, semicolons, white space or brackets. Throws `Error` where one is
/// none.
std::vector<float> parse_numbers(const std::string& text);

/// What a regressor answers to features [1, N, F], position by position: each answer of `size`
/// numbers is what the decoder reads next, behind zeros. [length * size]
std::vector<double> predict_numbers(const Model& model, const Tensor& features, int64_t length,
                                    int64_t size = 1);

}  // namespace heed
