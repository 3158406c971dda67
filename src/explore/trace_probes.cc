#include "explore/parts.h"
#include "heed/ops.h"
#include "heed/tensor.h"

// Passes in which rows of a hook are replaced, to find out what the layers behind it make of them.

namespace heed::explore {
namespace {

/// `rows` in place of rows of a hook's value; the rest is left. `at`: where each of them stands.
Tensor with_rows(
    const Tensor& value, const std::vector<Row>& rows,
    const std::function<int64_t(int64_t)>& at = [](int64_t i) { return i; }) {
  const Tensor changed = value.detach().to(DType::f32).contiguous().clone();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto width = static_cast<int64_t>(rows[i].size());
    float* out = changed.data<float>() + at(static_cast<int64_t>(i)) * width;
    for (const double x : rows[i]) {
      *out++ = static_cast<float>(x);
    }
  }
  return changed.to(value.dtype());
}

}  // namespace

Trace::Probe Trace::probe_input(int64_t wanted, int64_t count) const {
  Probe probe;
  const ModelKind kind = model_.model->kind();
  constexpr int64_t kLong = 256;  // rows from which a whole pass is worth avoiding
  const bool text = kind == ModelKind::decoder || kind == ModelKind::encoder;
  if (text && count > kLong && wanted < count && input_.input_ids.size(1) == count) {
    // A row's result does not depend on the others: a few tokens do as well as a long text.
    probe.input = input_;
    for (Tensor* tensor : {&probe.input.input_ids, &probe.input.token_type_ids}) {
      if (tensor->defined()) {
        *tensor = slice(*tensor, 1, 0, wanted).contiguous();
      }
    }
    probe.rows = wanted;
    return probe;
  }
  probe.copies = (wanted + count - 1) / count;
  probe.rows = count;
  probe.input = repeated(probe.copies);
  return probe;
}

void Trace::run_probes(const Probe& probe) const {
  const NoGrad no_grad;
  const UnroundedInputScope unrounded;
  ModelInput input = probe.input;
  input.want_logits = false;
  try {
    model_.model->forward(input);
  } catch (const Watcher::Stopped&) {  // all that was wanted is there
  }
}

int64_t Trace::row_in(const std::string& hook, int64_t i) const {
  const Stage* of = stage(stack_of(hook));
  return of != nullptr && rows_of(hook) == of->grid.all() ? of->grid.position_of(i) : i;
}

std::vector<std::vector<Row>> Trace::map_rows(const std::vector<Mapping>& mappings) {
  int64_t wanted = 1;
  Watcher watcher;
  size_t last = 0;
  for (const Mapping& each : mappings) {
    wanted = std::max(wanted, static_cast<int64_t>(each.rows.size()));
    watcher.whole.insert(each.to);
    watcher.changes.emplace(each.from, [this, &each](const Tensor& value) {
      return with_rows(value, each.rows, [&](int64_t i) { return row_in(each.from, i); });
    });
    for (size_t i = 0; i < hooks_.size(); ++i) {
      last = hooks_[i].name == each.to ? std::max(last, i) : last;
    }
  }
  watcher.stop_after = hooks_[last].name;
  const Stage* of = stage(stack_of(mappings.front().from));
  const int64_t count = of != nullptr ? of->grid.count() : rows_of(mappings.front().from);
  const Probe probe = probe_input(wanted, count);
  run_probes(probe);
  std::vector<std::vector<Row>> results;
  for (const Mapping& each : mappings) {
    const Tensor kept =
        as_rows(watcher.kept.at(each.to),
                probe.copies * (probe.rows == count ? rows_of(each.to) : probe.rows));
    std::vector<Row>& rows = results.emplace_back();
    for (size_t i = 0; i < each.rows.size(); ++i) {
      const int64_t row = row_in(each.to, static_cast<int64_t>(i));
      rows.push_back(slice(kept, 0, row, row + 1).to_doubles());
    }
  }
  return results;
}

namespace {

/// One row of a matrix replaced by each of `rows`.
std::vector<Tensor> with_row(const Tensor& matrix, int64_t at, const std::vector<Row>& rows) {
  std::vector<Tensor> changed;
  changed.reserve(rows.size());
  for (const Row& row : rows) {
    changed.push_back(with_rows(matrix, {row}, [at](int64_t) { return at; }));
  }
  return changed;
}

/// The direction Σ weights[token] of each of `rows` rows of logits.
Tensor direction_of(const Shape& shape, int64_t rows,
                    const std::vector<std::pair<int64_t, double>>& weights) {
  Tensor direction = Tensor::zeros(shape);
  for (int64_t i = 0; i < rows; ++i) {
    for (const auto& [token, weight] : weights) {
      direction.data<float>()[i * shape[1] + token] = static_cast<float>(weight);
    }
  }
  return direction;
}

Tensor flat_logits(const Tensor& logits) {
  return reshape(logits, {logits.numel() / logits.size(-1), logits.size(-1)});
}

/// Calls fn(first, last) for as many of `count` inputs of `rows` rows as one pass may hold.
template <class Fn>
void in_passes(int64_t count, int64_t rows, const Fn& fn) {
  constexpr int64_t kMostRows = 4096;
  const int64_t each = std::max<int64_t>(kMostRows / std::max<int64_t>(rows, 1), 1);
  for (int64_t first = 0; first < count; first += each) {
    fn(first, std::min(first + each, count));
  }
}

}  // namespace

std::vector<Row> Trace::map_to_logits(const std::string& hook, const std::vector<Row>& rows) {
  if (is_pooled()) {  // a reader, whose other rows are the words that it chooses among
    return logits_of(hook, with_row(activation(hook), asked_, rows));
  }
  const auto wanted = static_cast<int64_t>(rows.size());
  Watcher watcher;
  watcher.changes.emplace(hook, [&](const Tensor& value) { return with_rows(value, rows); });
  const UnroundedInputScope unrounded;
  if (few_logits_) {
    const NoGrad no_grad;
    watcher.whole.insert(kFinalRows);
    const Probe probe = probe_input(wanted, rows_of(hook));
    run_probes(probe);
    const Tensor read = as_rows(watcher.kept.at(kFinalRows), probe.copies * probe.rows);
    return rows_of_matrix(model_.model->logits(slice(read, 0, 0, wanted)));
  }
  const int64_t copies = (wanted + rows_of(hook) - 1) / rows_of(hook);
  const Tensor logits = run(watcher, copies, false).logits.detach().to(DType::f32).contiguous();
  return rows_of_matrix(slice(flat_logits(logits), 0, 0, wanted));
}

std::vector<Row> Trace::logits_of(const std::string& hook, const std::vector<Tensor>& values) {
  std::vector<Row> results;
  const UnroundedInputScope unrounded;
  in_passes(static_cast<int64_t>(values.size()), rows_of(hook), [&](int64_t first, int64_t last) {
    Watcher watcher;
    watcher.changes.emplace(hook, [&](const Tensor& value) {
      return from_rows(concat({values.begin() + first, values.begin() + last}, 0), value);
    });
    const Tensor logits = run(watcher, last - first, false).logits.detach().to(DType::f32);
    for (Row& row : rows_of_matrix(flat_logits(logits.contiguous()))) {
      results.push_back(std::move(row));
    }
  });
  return results;
}

std::vector<Tensor> Trace::gradients_of(const std::string& hook, const std::vector<Tensor>& values,
                                        const std::vector<std::pair<int64_t, double>>& weights) {
  std::vector<Tensor> results;
  const UnroundedInputScope unrounded;
  const int64_t count = rows_of(hook);
  in_passes(static_cast<int64_t>(values.size()), count, [&](int64_t first, int64_t last) {
    Tensor leaf;
    Watcher watcher;
    watcher.changes.emplace(hook, [&](const Tensor& value) {
      leaf = concat({values.begin() + first, values.begin() + last}, 0);
      leaf.set_requires_grad(true);
      return reshape(leaf, value.shape()).to(value.dtype());
    });
    const Tensor logits = model_.model->forward(repeated(last - first)).logits;
    backward(logits, direction_of(logits.shape(), last - first, weights).to(logits.dtype()));
    for (int64_t i = 0; i < last - first; ++i) {
      results.push_back(slice(leaf.grad(), 0, i * count, (i + 1) * count).contiguous());
    }
  });
  return results;
}

std::vector<Row> Trace::logit_gradients(const std::string& hook, const std::vector<Row>& rows,
                                        const std::vector<std::pair<int64_t, double>>& weights) {
  std::vector<Row> results;
  if (is_pooled()) {
    for (const Tensor& each :
         gradients_of(hook, with_row(activation(hook), asked_, rows), weights)) {
      results.push_back(slice(each, 0, asked_, asked_ + 1).to_doubles());
    }
    return results;
  }
  const auto wanted = static_cast<int64_t>(rows.size());
  const int64_t copies = (wanted + rows_of(hook) - 1) / rows_of(hook);
  Tensor leaf;
  Watcher watcher;
  watcher.changes.emplace(hook, [&](const Tensor& value) {
    leaf = with_rows(value, rows).to(DType::f32);
    leaf.set_requires_grad(true);
    return leaf.to(value.dtype());
  });
  const UnroundedInputScope unrounded;
  const Tensor flat = flat_logits(with_row_logits(model_.model->forward(repeated(copies))).logits);
  backward(flat, direction_of(flat.shape(), wanted, weights).to(flat.dtype()));
  const Tensor gradient = as_rows(leaf.grad(), copies * rows_of(hook));
  return rows_of_matrix(slice(gradient, 0, 0, wanted));
}

}  // namespace heed::explore
