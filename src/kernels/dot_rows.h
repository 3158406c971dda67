#pragma once

#include <cstdint>

namespace heed::kernels {

// Products of many stored vectors with one query, for exact search. Each row is read once, in
// order, so that the speed is that of memory. A row's result depends on nothing but the row and
// the query.

/// out[i] = Σ_j rows[i][j] · query[j] for i < count; rows are [count, dim] without gaps.
void dot_rows(float* out, const float* rows, int64_t count, int64_t dim, const float* query);

/// The same in integers, exactly. Requires Σ_j |query[j]| · 128 < 2³¹.
void dot_rows(int32_t* out, const int8_t* rows, int64_t count, int64_t dim, const int16_t* query);

}  // namespace heed::kernels
