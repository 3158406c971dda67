#include "train/ema.h"

#include <algorithm>

#include "base/check.h"
#include "base/parallel.h"

namespace heed {
namespace {
constexpr int64_t kGrain = 1 << 14;  // elements of a tile
}

Ema::Ema(const std::vector<NamedTensor>& parameters, double decay) : decay_(decay) {
  if (decay < 0.0 || decay >= 1.0) {
    fail(ErrorKind::usage, "ema", "{} is no decay; give one from 0 to below 1, such as 0.999",
         decay);
  }
  if (!on()) {
    return;
  }
  for (const NamedTensor& parameter : parameters) {
    weights_.emplace_back(parameter.first, parameter.second.detach());
    averages_.push_back(parameter.second.detach().to(DType::f32).clone());
  }
}

void Ema::update(int64_t step) {
  if (!on()) {
    return;
  }
  const double warm = (1.0 + static_cast<double>(step)) / (10.0 + static_cast<double>(step));
  const auto share = static_cast<float>(1.0 - std::min(decay_, warm));
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Tensor now = weights_[i].second.to(DType::f32);
    const float* from = now.data<float>();
    float* average = averages_[i].data<float>();
    parallel_ranges(now.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        average[k] += share * (from[k] - average[k]);
      }
    });
    averages_[i].bump_version();
  }
}

TensorMap Ema::state() const {
  TensorMap state;
  for (size_t i = 0; i < weights_.size(); ++i) {
    state.emplace(weights_[i].first, averages_[i]);
  }
  return state;
}

void Ema::load_state(const TensorMap& state) {
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto found = state.find(weights_[i].first);
    check_data(found != state.end() && found->second.shape() == averages_[i].shape(),
               "ema.safetensors", "lacks '{}' in the shape {}", weights_[i].first,
               averages_[i].shape());
    averages_[i].copy_from(found->second);
  }
}

void Ema::exchange() {
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Tensor before = weights_[i].second.clone();
    weights_[i].second.copy_from(averages_[i].to(before.dtype()));
    averages_[i].copy_from(before.to(DType::f32));
  }
}

}  // namespace heed
