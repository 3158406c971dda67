#include "kernels/recurrent.h"

#include <algorithm>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/activation-inl.h"
#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void lstm_row(Compute<T>* active, T* c, T* h, const T* gates, const T* c_before, size_t hidden) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t j = 0; j < hidden; j += lanes) {
    const size_t rest = HWY_MIN(lanes, hidden - j);
    const auto i = sigmoid(d, load_upto(d, gates + j, rest));
    const auto f = sigmoid(d, load_upto(d, gates + hidden + j, rest));
    const auto g = tanh(d, load_upto(d, gates + 2 * hidden + j, rest));
    const auto o = sigmoid(d, load_upto(d, gates + 3 * hidden + j, rest));
    const auto cell = hn::MulAdd(f, load_upto(d, c_before + j, rest), hn::Mul(i, g));
    store_upto(i, d, active + j, rest);
    store_upto(f, d, active + hidden + j, rest);
    store_upto(g, d, active + 2 * hidden + j, rest);
    store_upto(o, d, active + 3 * hidden + j, rest);
    store_upto(cell, d, c + j, rest);
    store_upto(hn::Mul(o, tanh(d, cell)), d, h + j, rest);
  }
}

template <class T>
void lstm_grad_row(const LstmGrad<T>& cell, int64_t row) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto hidden = static_cast<size_t>(cell.hidden);
  const int64_t at = row * cell.hidden;
  T* dgates = cell.dgates + 4 * at;
  T* dc_before = cell.dc_before + at;
  const T* dh = cell.dh == nullptr ? nullptr : cell.dh + at;
  const T* dc = cell.dc == nullptr ? nullptr : cell.dc + at;
  const Compute<T>* active = cell.active + 4 * at;
  const T* c = cell.c + at;
  const T* c_before = cell.c_before + at;
  for (size_t j = 0; j < hidden; j += lanes) {
    const size_t rest = HWY_MIN(lanes, hidden - j);
    const auto i = load_upto(d, active + j, rest);
    const auto f = load_upto(d, active + hidden + j, rest);
    const auto g = load_upto(d, active + 2 * hidden + j, rest);
    const auto o = load_upto(d, active + 3 * hidden + j, rest);
    const auto squashed = tanh(d, load_upto(d, c + j, rest));
    const auto to_h = dh == nullptr ? hn::Zero(d) : load_upto(d, dh + j, rest);
    const auto through_h = hn::Mul(hn::Mul(to_h, o), Tanh::slope(d, squashed));
    const auto to_c = dc == nullptr ? through_h : hn::Add(through_h, load_upto(d, dc + j, rest));
    const auto before = load_upto(d, c_before + j, rest);
    store_upto(hn::Mul(hn::Mul(to_c, g), Sigmoid::slope(d, i)), d, dgates + j, rest);
    store_upto(hn::Mul(hn::Mul(to_c, before), Sigmoid::slope(d, f)), d, dgates + hidden + j, rest);
    store_upto(hn::Mul(hn::Mul(to_c, i), Tanh::slope(d, g)), d, dgates + 2 * hidden + j, rest);
    store_upto(hn::Mul(hn::Mul(to_h, squashed), Sigmoid::slope(d, o)), d, dgates + 3 * hidden + j,
               rest);
    store_upto(hn::Mul(to_c, f), d, dc_before + j, rest);
  }
}

template <class T>
void gru_row(Compute<T>* active, T* h, const T* from_x, const T* from_h, const T* h_before,
             size_t hidden) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t j = 0; j < hidden; j += lanes) {
    const size_t rest = HWY_MIN(lanes, hidden - j);
    const auto sum = [=](size_t at) HWY_ATTR {
      return hn::Add(load_upto(d, from_x + at, rest), load_upto(d, from_h + at, rest));
    };
    const auto r = sigmoid(d, sum(j));
    const auto z = sigmoid(d, sum(hidden + j));
    const auto n = tanh(d, hn::MulAdd(r, load_upto(d, from_h + 2 * hidden + j, rest),
                                      load_upto(d, from_x + 2 * hidden + j, rest)));
    store_upto(r, d, active + j, rest);
    store_upto(z, d, active + hidden + j, rest);
    store_upto(n, d, active + 2 * hidden + j, rest);
    const auto before = load_upto(d, h_before + j, rest);
    store_upto(hn::MulAdd(z, hn::Sub(before, n), n), d, h + j, rest);
  }
}

template <class T>
void gru_grad_row(const GruGrad<T>& cell, int64_t row) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto hidden = static_cast<size_t>(cell.hidden);
  const int64_t at = row * cell.hidden;
  T* dfrom_x = cell.dfrom_x + 3 * at;
  T* dfrom_h = cell.dfrom_h + 3 * at;
  T* dh_before = cell.dh_before + at;
  const T* dh = cell.dh + at;
  const Compute<T>* active = cell.active + 3 * at;
  const T* from_h = cell.from_h + 3 * at;
  const T* h_before = cell.h_before + at;
  for (size_t j = 0; j < hidden; j += lanes) {
    const size_t rest = HWY_MIN(lanes, hidden - j);
    const auto r = load_upto(d, active + j, rest);
    const auto z = load_upto(d, active + hidden + j, rest);
    const auto n = load_upto(d, active + 2 * hidden + j, rest);
    const auto gradient = load_upto(d, dh + j, rest);
    const auto before = load_upto(d, h_before + j, rest);
    const auto to_n = hn::Mul(hn::NegMulAdd(gradient, z, gradient), Tanh::slope(d, n));
    const auto to_z = hn::Mul(hn::Mul(gradient, hn::Sub(before, n)), Sigmoid::slope(d, z));
    const auto recurrent = load_upto(d, from_h + 2 * hidden + j, rest);
    const auto to_r = hn::Mul(hn::Mul(to_n, recurrent), Sigmoid::slope(d, r));
    store_upto(to_r, d, dfrom_x + j, rest);
    store_upto(to_z, d, dfrom_x + hidden + j, rest);
    store_upto(to_n, d, dfrom_x + 2 * hidden + j, rest);
    store_upto(to_r, d, dfrom_h + j, rest);
    store_upto(to_z, d, dfrom_h + hidden + j, rest);
    store_upto(hn::Mul(to_n, r), d, dfrom_h + 2 * hidden + j, rest);
    store_upto(hn::Mul(gradient, z), d, dh_before + j, rest);
  }
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(lstm_row)
HEED_EXPORT(lstm_grad_row)
HEED_EXPORT(gru_row)
HEED_EXPORT(gru_grad_row)

namespace {
/// Calls fn(row) for every row, tiles of about 4,096 units at a time.
template <class Fn>
void for_rows(int64_t rows, int64_t hidden, Fn&& fn) {
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(hidden, 1));
  parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      fn(row);
    }
  });
}
}  // namespace

template <class T>
void lstm_gates(Compute<T>* active, T* c, T* h, const T* gates, const T* c_before, int64_t rows,
                int64_t hidden) {
  for_rows(rows, hidden, [&](int64_t row) {
    const int64_t at = row * hidden;
    HEED_CALL(lstm_row, T)
    (active + 4 * at, c + at, h + at, gates + 4 * at, c_before + at, static_cast<size_t>(hidden));
  });
}

template <class T>
void lstm_gates_grad(const LstmGrad<T>& cell) {
  for_rows(cell.rows, cell.hidden, [&](int64_t row) { HEED_CALL(lstm_grad_row, T)(cell, row); });
}

template <class T>
void gru_gates(Compute<T>* active, T* h, const T* from_x, const T* from_h, const T* h_before,
               int64_t rows, int64_t hidden) {
  for_rows(rows, hidden, [&](int64_t row) {
    const int64_t at = row * hidden;
    HEED_CALL(gru_row, T)
    (active + 3 * at, h + at, from_x + 3 * at, from_h + 3 * at, h_before + at,
     static_cast<size_t>(hidden));
  });
}

template <class T>
void gru_gates_grad(const GruGrad<T>& cell) {
  for_rows(cell.rows, cell.hidden, [&](int64_t row) { HEED_CALL(gru_grad_row, T)(cell, row); });
}

#define HEED_INSTANTIATE(T)                                                                 \
  template void lstm_gates(Compute<T>*, T*, T*, const T*, const T*, int64_t, int64_t);      \
  template void lstm_gates_grad(const LstmGrad<T>&);                                        \
  template void gru_gates(Compute<T>*, T*, const T*, const T*, const T*, int64_t, int64_t); \
  template void gru_gates_grad(const GruGrad<T>&);
HEED_FLOAT_TYPES(HEED_INSTANTIATE)
#undef HEED_INSTANTIATE

}  // namespace heed::kernels
#endif
