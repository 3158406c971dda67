#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace heed::kernels {

/// out[i] = table[ids[i]], rows of `row_bytes` bytes.
void gather_rows(void* out, const void* table, const int64_t* ids, int64_t count,
                 int64_t row_bytes);

/// out [rows, width] = for each row the sum of dy[i] over the indices i with ids[i] = row, in their
/// order; zero where there is none. Writes every row.
template <class T>
void sum_rows_by_id(T* out, const T* dy, const int64_t* ids, int64_t count, int64_t rows,
                    int64_t width);

}  // namespace heed::kernels
