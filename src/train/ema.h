#pragma once

#include <vector>

#include "heed/io.h"
#include "heed/train.h"

namespace heed {

/// Exponential moving average of the weights. With a decay of 0 it is off and costs nothing.
class Ema {
 public:
  Ema(const std::vector<NamedTensor>& parameters, double decay);
  bool on() const { return decay_ > 0.0; }
  /// Takes the weights after update number `step`, counted from 1. Early updates count for more,
  /// so that the fresh weights are soon forgotten.
  void update(int64_t step);
  /// The averages by parameter; they share memory with this object.
  TensorMap state() const;
  void load_state(const TensorMap& state);
  /// Exchanges weights and averages; once more puts them back.
  void exchange();

 private:
  double decay_;
  std::vector<NamedTensor> weights_;
  std::vector<Tensor> averages_;
};

/// The model has the averages as its weights while this lives.
class EmaScope {
 public:
  explicit EmaScope(Ema& ema) : ema_(ema) { ema_.exchange(); }
  ~EmaScope() { ema_.exchange(); }
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema& ema_;
};

}  // namespace heed
