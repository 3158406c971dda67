#pragma once

#include "heed/tensor.h"
#include "kernels/gemm.h"
#include "kernels/types.h"

namespace heed {

/// The kernels' name of a quantised dtype.
kernels::Element quantized_element(DType type);

/// Whether products read weights like this one in another order than the file's
/// (kernels/interleave.h): a quantised matrix, or a transposed view of one, of a type and on a
/// processor that have a kernel for it.
bool can_interleave(const Tensor& weight);

/// From the second product on, such a weight is read from a copy in that order; from the first one
/// on where that has many rows. (A short prompt's first token need not wait for the copy.) The
/// pages of a mapped file that it was made from are given back. Not to be called while another
/// thread uses the weight.
void interleave_when_used(const Tensor& weight);

/// The interleaved copy of a weight for a product with `rows` rows, made now where it is wanted and
/// not there yet; null where it is not wanted, or not wanted yet.
const void* interleaved(const Tensor& weight, int64_t rows);

/// Whether products may read a weight of f32 or bf16 from panels (kernels/packed_weights.h): a
/// matrix [out, in] that is all of its storage. interleave_when_used() asks for them.
bool can_pack(const Tensor& weight);

/// The panels of a weight for a product with rows of type `rows`; null where they are not wanted or
/// not there yet. They are made in the third such product: who runs a model once does not wait for
/// them.
const void* packed(const Tensor& weight, DType rows);

/// y [rows, in] = x [rows, out] · weight, where `weight` is quantised [out, in]. Dequantises a tile
/// of the weight at a time, never the whole of it.
void multiply_by_quantized(int64_t rows, const kernels::Matrix& x, const Tensor& weight, float* y);

}  // namespace heed
