#include <optional>

#include "base/file.h"
#include "kernels/interleave.h"
#include "ops/quantized.h"
#include "tensor/impl.h"

namespace heed {
namespace {

struct Sizes {
  int64_t out = 0;
  int64_t in = 0;
};

/// Of a weight that is all of its storage, in rows of whole blocks; else none.
std::optional<Sizes> sizes_of(const Tensor& weight) {
  const TensorImpl& impl = *weight.impl();
  if (!is_quantized(weight.dtype()) || weight.rank() != 2 || impl.offset != 0 ||
      weight.bytes() != impl.storage->bytes()) {
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

const void* interleaved(const Tensor& weight) {
  Storage& storage = *weight.impl()->storage;
  Storage::SecondForm* form = storage.second_form.get();
  if (form == nullptr || !can_interleave(weight)) {
    return nullptr;
  }
  std::call_once(form->made, [&] {
    const kernels::Element type = quantized_element(weight.dtype());
    const auto [n, k] = sizes_of(weight).value();
    auto copy = std::make_unique<Storage>(kernels::interleaved_bytes(type, n, k));
    kernels::interleave(type, weight.raw(), n, k, copy->data());
    form->version = storage.version.load();
    form->storage = std::move(copy);
    if (storage.is_borrowed()) {
      drop_pages(
          {static_cast<const std::byte*>(storage.data()), static_cast<size_t>(storage.bytes())});
    }
  });
  return form->version == storage.version.load() ? form->storage->data() : nullptr;
}

}  // namespace heed
