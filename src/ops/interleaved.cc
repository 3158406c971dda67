#include <optional>

#include "base/file.h"
#include "kernels/interleave.h"
#include "kernels/packed_weights.h"
#include "ops/matrix.h"
#include "ops/quantized.h"
#include "tensor/impl.h"

namespace heed {
namespace {

struct Sizes {
  int64_t out = 0;
  int64_t in = 0;
};

bool is_all_of_its_storage(const Tensor& weight) {
  const TensorImpl& impl = *weight.impl();
  return impl.offset == 0 && weight.bytes() == impl.storage->bytes();
}

/// Of a weight that is all of its storage, in rows of whole blocks; else none.
std::optional<Sizes> sizes_of(const Tensor& weight) {
  if (!is_quantized(weight.dtype()) || weight.rank() != 2 || !is_all_of_its_storage(weight)) {
    return std::nullopt;
  }
  const Shape strides = weight.strides();
  if (strides == Shape{weight.size(1), 1}) {
    return Sizes{weight.size(0), weight.size(1)};
  }
  if (strides == Shape{1, weight.size(0)}) {
    return Sizes{weight.size(1), weight.size(0)};
  }
  return std::nullopt;
}

}  // namespace

bool can_interleave(const Tensor& weight) {
  const std::optional<Sizes> sizes = sizes_of(weight);
  return sizes.has_value() && kernels::multiplies_interleaved() &&
         kernels::interleaved_bytes(quantized_element(weight.dtype()), sizes->out, sizes->in) > 0;
}

void interleave_when_used(const Tensor& weight) {
  Storage& storage = *weight.impl()->storage;
  if (storage.second_form == nullptr) {
    storage.second_form = std::make_unique<Storage::SecondForm>();
  }
}

namespace {

/// The second form, which make() fills where it is not there yet; null where the weight has changed
/// since.
template <class Make>
const void* made_once(const Tensor& weight, int64_t bytes, const Make& make) {
  Storage& storage = *weight.impl()->storage;
  Storage::SecondForm& form = *storage.second_form;
  std::call_once(form.made, [&] {
    auto copy = std::make_unique<Storage>(bytes);
    make(copy->data());
    form.version = storage.version.load();
    form.storage = std::move(copy);
    if (storage.is_borrowed()) {
      drop_pages(
          {static_cast<const std::byte*>(storage.data()), static_cast<size_t>(storage.bytes())});
    }
  });
  return form.version == storage.version.load() ? form.storage->data() : nullptr;
}

}  // namespace

const void* interleaved(const Tensor& weight, int64_t rows) {
  constexpr int64_t kFewRows = 64;  // more would take longer in the file's order than the copy
  Storage::SecondForm* form = weight.impl()->storage->second_form.get();
  if (form == nullptr || !can_interleave(weight)) {
    return nullptr;
  }
  if (rows <= kFewRows && form->uses.load() == 0 && form->uses++ == 0) {
    return nullptr;
  }
  form->uses = 1;
  const kernels::Element type = quantized_element(weight.dtype());
  const auto [n, k] = sizes_of(weight).value();
  return made_once(weight, kernels::interleaved_bytes(type, n, k), [&, n = n, k = k](void* out) {
    kernels::interleave(type, weight.raw(), n, k, out);
  });
}

bool can_pack(const Tensor& weight) {
  return (weight.dtype() == DType::f32 || weight.dtype() == DType::bf16) && weight.rank() == 2 &&
         weight.is_contiguous() && is_all_of_its_storage(weight);
}

const void* packed(const Tensor& weight, DType rows) {
  constexpr int kUsesBefore = 2;
  Storage::SecondForm* form = weight.impl()->storage->second_form.get();
  if (form == nullptr || rows != weight.dtype() || !can_pack(weight)) {
    return nullptr;
  }
  const kernels::Matrix matrix = transposed(matrix_of(weight, "linear"));
  if (!kernels::reads_packed(matrix.type, matrix.type) ||
      (form->uses.load() < kUsesBefore && form->uses++ < kUsesBefore)) {
    return nullptr;
  }
  const int64_t n = weight.size(0);
  const int64_t k = weight.size(1);
  return made_once(weight, kernels::packed_bytes(matrix.type, n, k),
                   [&](void* out) { kernels::pack_weights(matrix, n, k, out); });
}

}  // namespace heed
