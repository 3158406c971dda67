#include "kernels/recurrent.h"

#include "ops/common.h"

namespace heed {
namespace {

/// x [B, in], h [B, hidden], weight_ih [gates*hidden, in], weight_hh [gates*hidden, hidden].
void check_cell(const char* op, const Tensor& x, const Tensor& h, const Tensor& weight_ih,
                const Tensor& weight_hh, int64_t gates) {
  check_floating(x, op);
  check_floating(h, op, "state");
  check_same_dtype(x, h, op);
  check_defined(weight_ih, op, "weight_ih");
  check_defined(weight_hh, op, "weight_hh");
  check(x.rank() == 2 && h.rank() == 2 && x.size(0) == h.size(0), op,
        "input {} and state {}; [batch, width] is wanted", x.shape(), h.shape());
  const int64_t hidden = h.size(1);
  check(weight_ih.shape() == Shape({gates * hidden, x.size(1)}) &&
            weight_hh.shape() == Shape({gates * hidden, hidden}),
        op, "weights {} and {} for input {} and state {}", weight_ih.shape(), weight_hh.shape(),
        x.shape(), h.shape());
}

LstmState lstm_pointwise(const Tensor& gates_given, const Tensor& c_given) {
  const Tensor gates = gates_given.contiguous();
  const Tensor c_before = c_given.contiguous();
  const int64_t rows = c_before.size(0);
  const int64_t hidden = c_before.size(1);
  const Tensor active = Tensor::empty(gates.shape(), compute_type(gates.dtype()));
  Tensor h = Tensor::empty(c_before.shape(), gates.dtype());
  Tensor c = Tensor::empty(c_before.shape(), gates.dtype());
  dispatch_float(gates.dtype(), "lstm_cell", [&](auto tag) {
    using T = decltype(tag);
    kernels::lstm_gates(active.data<kernels::Compute<T>>(), c.data<T>(), h.data<T>(),
                        gates.data<T>(), c_before.data<T>(), rows, hidden);
  });
  const std::vector<Tensor> inputs{gates_given, c_given};
  const std::vector<Tensor> results =
      record_multi("lstm_cell", {h, c}, inputs,
                   [=, c = Saved(c), c_before = Saved(c_before)](const std::vector<Tensor>& dys) {
                     const Tensor dh = dys[0].defined() ? dys[0].contiguous() : dys[0];
                     const Tensor dc = dys[1].defined() ? dys[1].contiguous() : dys[1];
                     const Tensor& cell = c.get();
                     Tensor dgates = Tensor::empty(active.shape(), cell.dtype());
                     Tensor dc_before = Tensor::empty(cell.shape(), cell.dtype());
                     dispatch_float(cell.dtype(), "lstm_cell", [&](auto tag) {
                       using T = decltype(tag);
                       kernels::lstm_gates_grad<T>({.dgates = dgates.data<T>(),
                                                    .dc_before = dc_before.data<T>(),
                                                    .dh = dh.defined() ? dh.data<T>() : nullptr,
                                                    .dc = dc.defined() ? dc.data<T>() : nullptr,
                                                    .active = active.data<kernels::Compute<T>>(),
                                                    .c = cell.data<T>(),
                                                    .c_before = c_before.get().data<T>(),
                                                    .rows = rows,
                                                    .hidden = hidden});
                     });
                     return std::vector{dgates, dc_before};
                   });
  return {results[0], results[1]};
}

Tensor gru_pointwise(const Tensor& from_x_given, const Tensor& from_h_given,
                     const Tensor& h_given) {
  const Tensor from_x = from_x_given.contiguous();
  const Tensor from_h = from_h_given.contiguous();
  const Tensor h_before = h_given.contiguous();
  const int64_t rows = h_before.size(0);
  const int64_t hidden = h_before.size(1);
  const Tensor active = Tensor::empty(from_x.shape(), compute_type(from_x.dtype()));
  Tensor h = Tensor::empty(h_before.shape(), from_x.dtype());
  dispatch_float(from_x.dtype(), "gru_cell", [&](auto tag) {
    using T = decltype(tag);
    kernels::gru_gates(active.data<kernels::Compute<T>>(), h.data<T>(), from_x.data<T>(),
                       from_h.data<T>(), h_before.data<T>(), rows, hidden);
  });
  return record("gru_cell", h, {from_x_given, from_h_given, h_given},
                [=, from_h = Saved(from_h), h_before = Saved(h_before)](const Tensor& gradient) {
                  const Tensor dh = gradient.contiguous();
                  Tensor dfrom_x = Tensor::empty(active.shape(), dh.dtype());
                  Tensor dfrom_h = Tensor::empty(active.shape(), dh.dtype());
                  Tensor dh_before = Tensor::empty(dh.shape(), dh.dtype());
                  dispatch_float(dh.dtype(), "gru_cell", [&](auto tag) {
                    using T = decltype(tag);
                    kernels::gru_gates_grad<T>({.dfrom_x = dfrom_x.data<T>(),
                                                .dfrom_h = dfrom_h.data<T>(),
                                                .dh_before = dh_before.data<T>(),
                                                .dh = dh.data<T>(),
                                                .active = active.data<kernels::Compute<T>>(),
                                                .from_h = from_h.get().data<T>(),
                                                .h_before = h_before.get().data<T>(),
                                                .rows = rows,
                                                .hidden = hidden});
                  });
                  return std::vector{dfrom_x, dfrom_h, dh_before};
                });
}

}  // namespace

LstmState lstm_cell(const Tensor& x, const LstmState& state, const Tensor& weight_ih,
                    const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh) {
  check_cell("lstm_cell", x, state.h, weight_ih, weight_hh, 4);
  check_floating(state.c, "lstm_cell", "cell state");
  check(state.c.shape() == state.h.shape() && state.c.dtype() == state.h.dtype(), "lstm_cell",
        "states h {} and c {} differ", state.h.shape(), state.c.shape());
  LinearOptions options;
  options.residual = linear(x, weight_ih, bias_ih);
  return lstm_pointwise(linear(state.h, weight_hh, bias_hh, options), state.c);
}

Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih, const Tensor& weight_hh,
                const Tensor& bias_ih, const Tensor& bias_hh) {
  check_cell("gru_cell", x, h, weight_ih, weight_hh, 3);
  return gru_pointwise(linear(x, weight_ih, bias_ih), linear(h, weight_hh, bias_hh), h);
}

}  // namespace heed
