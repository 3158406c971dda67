#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "data/gather_rows.h"
#include "heed/data.h"

namespace heed {
namespace {

class NumberLoader final : public Loader {
 public:
  NumberLoader(const NumberData& data, const LoaderOptions& options)
      : Loader(options),
        input_(data.input.to(DType::f32).contiguous()),
        target_(data.target.to(DType::f32).contiguous()) {
    check(input_.rank() == 3 && target_.rank() == 3 && input_.size(0) == target_.size(0), "numbers",
          "inputs {} and targets {} do not fit", input_.shape(), target_.shape());
    const uint64_t both[2] = {fingerprint_of_tensor(input_), fingerprint_of_tensor(target_)};
    set_examples(input_.size(0), fingerprint_of(both, sizeof(both), 0), false);
  }

 protected:
  Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                int64_t) const override {
    Batch batch;
    batch.rows = end - begin;
    batch.features = gather_rows(input_, examples, begin, end);
    batch.labels = gather_rows(target_, examples, begin, end);
    batch.decoder_features = Tensor::zeros(batch.labels.shape());
    const int64_t width = target_.size(2);
    const int64_t size = target_.size(1) * width;
    for (int64_t row = 0; row < batch.rows; ++row) {
      std::copy_n(batch.labels.data<float>() + row * size, size - width,
                  batch.decoder_features.data<float>() + row * size + width);
    }
    batch.targets = batch.rows * size;
    batch.global_targets = static_cast<int64_t>(examples.size()) * size;
    return batch;
  }

 private:
  Tensor input_;
  Tensor target_;
};

}  // namespace

std::unique_ptr<Loader> make_number_loader(const NumberData& data, const LoaderOptions& options) {
  return std::make_unique<NumberLoader>(data, options);
}

}  // namespace heed
