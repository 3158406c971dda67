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

int64_t Trace::copies_for(const std::string& hook, int64_t wanted) {
  // A classifier reads one row of each sequence (or all of them): one sequence for each row.
  const bool pooled = !few_logits_ && logits_.rank() == 2;
  if (pooled) {
    answer_row();  // which takes a pass of its own, before the one that is about to run
  }
  const int64_t count = rows_of(hook);
  return pooled ? wanted : (wanted + count - 1) / count;
}

Tensor Trace::replaced(const Tensor& value, const std::string& hook, const std::vector<Row>& rows) {
  if (few_logits_ || logits_.rank() != 2) {
    return with_rows(value, rows);
  }
  const Tensor changed = value.detach().to(DType::f32).contiguous().clone();
  const int64_t count = rows_of(hook);
  const int64_t width = changed.numel() / (static_cast<int64_t>(rows.size()) * count);
  for (size_t i = 0; i < rows.size(); ++i) {
    float* row = changed.data<float>() + (static_cast<int64_t>(i) * count + answer_row()) * width;
    std::copy_n(rows[i].begin(), width, row);
  }
  return changed.to(value.dtype());
}

std::vector<Row> Trace::map_to_logits(const std::string& hook, const std::vector<Row>& rows) {
  const auto wanted = static_cast<int64_t>(rows.size());
  const int64_t copies = copies_for(hook, wanted);
  Watcher watcher;
  watcher.changes.emplace(hook, [&](const Tensor& value) { return replaced(value, hook, rows); });
  if (few_logits_) {
    const NoGrad no_grad;
    const UnroundedInputScope unrounded;
    watcher.whole.insert(kFinalRows);
    const Probe probe = probe_input(wanted, rows_of(hook));
    run_probes(probe);
    const Tensor read = as_rows(watcher.kept.at(kFinalRows), probe.copies * probe.rows);
    return rows_of_matrix(model_.model->logits(slice(read, 0, 0, wanted)));
  }
  const UnroundedInputScope unrounded;
  const Tensor logits = run(watcher, copies, false).logits.detach().to(DType::f32).contiguous();
  const Tensor flat = reshape(logits, {logits.numel() / logits.size(-1), logits.size(-1)});
  return rows_of_matrix(slice(flat, 0, 0, wanted));
}

Row Trace::logits_of_nothing(const std::string& hook) {
  Watcher watcher;
  watcher.changes.emplace(
      hook, [](const Tensor& value) { return Tensor::zeros(value.shape(), value.dtype()); });
  const UnroundedInputScope unrounded;
  return run(watcher, 1, false).logits.to_doubles();
}

std::optional<int64_t> Trace::read_row() {
  const StackShape stack = stack_shape(*this, answer_stack(*this));
  const std::string hook = stack.block(stack.layers - 1) + ".hook_resid_post";
  Tensor leaf;
  Watcher watcher;
  watcher.changes.emplace(hook, [&](const Tensor& value) {
    leaf = value.detach().to(DType::f32).clone();
    leaf.set_requires_grad(true);
    return leaf.to(value.dtype());
  });
  const Tensor logits = model_.model->forward(input_).logits;
  const Tensor weights = Tensor::zeros(logits.shape(), logits.dtype());
  for (int64_t i = 0; i < weights.numel(); ++i) {  // a sum of all might leave nothing
    weights.data<float>()[i] = static_cast<float>(i + 1);
  }
  if (!logits.requires_grad()) {
    return std::nullopt;
  }
  backward(logits, weights);
  if (!leaf.grad().defined()) {
    return std::nullopt;
  }
  const std::vector<Row> rows = rows_of_matrix(as_rows(leaf.grad(), rows_of(hook)));
  const auto largest = std::max_element(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return norm_of(a) < norm_of(b); });
  return largest - rows.begin();
}

std::vector<Row> Trace::logit_gradients(const std::string& hook, const std::vector<Row>& rows,
                                        const std::vector<std::pair<int64_t, double>>& weights) {
  const auto wanted = static_cast<int64_t>(rows.size());
  const bool pooled = !few_logits_ && logits_.rank() == 2;
  const int64_t copies = copies_for(hook, wanted);
  Tensor leaf;
  Watcher watcher;
  watcher.changes.emplace(hook, [&](const Tensor& value) {
    leaf = replaced(value, hook, rows).to(DType::f32);
    leaf.set_requires_grad(true);
    return leaf.to(value.dtype());
  });
  const UnroundedInputScope unrounded;
  const Tensor logits = with_row_logits(model_.model->forward(repeated(copies))).logits;
  const Tensor flat = reshape(logits, {logits.numel() / logits.size(-1), logits.size(-1)});
  const Tensor direction = Tensor::zeros(flat.shape());
  for (int64_t i = 0; i < wanted; ++i) {
    for (const auto& [token, weight] : weights) {
      direction.data<float>()[i * flat.size(1) + token] = static_cast<float>(weight);
    }
  }
  backward(flat, direction.to(flat.dtype()));
  const Tensor gradient = as_rows(leaf.grad(), copies * rows_of(hook));
  std::vector<Row> results;
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t at = pooled ? i * rows_of(hook) + answer_row() : i;
    results.push_back(slice(gradient, 0, at, at + 1).to_doubles());
  }
  return results;
}

}  // namespace heed::explore
