#include "explore/watcher.h"

#include "heed/ops.h"

namespace heed::explore {
namespace {

constexpr std::string_view kStages = "stages.";

bool is_stage(const std::string& hook) { return hook.starts_with(kStages); }

}  // namespace

int64_t hook_rows(const std::string& name, const Shape& shape) {
  if (shape.rank() == 4) {
    return shape[2];
  }
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  const bool heads = !is_stage(name) && (last.starts_with("hook_q") || last.starts_with("hook_k") ||
                                         last.starts_with("hook_v"));
  return shape.rank() == 3 && shape[0] == 1 && !heads ? shape[1] : shape[0];
}

int64_t record_bytes(const AttentionRecord& record) {
  int64_t numbers = 0;
  for (const Tensor& each : {record.q, record.k, record.v, record.output, record.global_v}) {
    numbers += each.defined() ? each.numel() : 0;
  }
  return numbers * 4;
}

Tensor as_rows(const Tensor& value, int64_t rows) {
  const Tensor ordered = value.rank() == 4 ? transpose(value.detach(), 1, 2) : value.detach();
  return reshape(ordered.to(DType::f32).contiguous(), {rows, value.numel() / rows});
}

Tensor from_rows(const Tensor& rows, const Tensor& value) {
  const Shape& shape = value.shape();
  const Tensor ordered =
      shape.rank() == 4 ? transpose(reshape(rows, {shape[0], shape[2], shape[1], shape[3]}), 1, 2)
                        : reshape(rows, shape);
  return ordered.contiguous().to(value.dtype());
}

std::vector<Row> rows_of_matrix(const Tensor& matrix) {
  std::vector<Row> rows;
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    rows.push_back(slice(matrix, 0, i, i + 1).to_doubles());
  }
  return rows;
}

std::string kind_of_stack(const std::string& prefix) {
  if (is_stage(prefix)) {
    return "stage" + prefix.substr(kStages.size(), prefix.size() - kStages.size() - 1);
  }
  return prefix.empty() ? "self" : prefix.substr(0, prefix.find_first_of("._"));
}

std::string stack_of(const std::string& hook) {
  for (const char* stack : {"encoder.", "decoder.", "text_model.", "vision_model."}) {
    if (hook.starts_with(stack)) {
      return stack;
    }
  }
  return is_stage(hook) ? hook.substr(0, hook.find('.', kStages.size()) + 1) : "";
}

int64_t RowGrid::row_at(int64_t position) const {
  const int64_t row = position / all_columns, column = position % all_columns;
  return row < rows && column < columns ? row * columns + column : -1;
}

int64_t RowGrid::position_of(int64_t row) const {
  const int64_t within = row % count();
  return row / count() * all() + within / columns * all_columns + within % columns;
}

AttentionPlace Watcher::place_of(const std::string& name) {
  AttentionPlace place = parse_place(name);
  if (is_stage(name)) {
    const std::string stack = stack_of(name);
    place.kind = kind_of_stack(stack);
    place.layer -= first_layers_.emplace(stack, place.layer).first->second;
  }
  return place;
}

void Watcher::keep_rows(const std::string& name, const Tensor& value, const std::string& stack,
                        const std::vector<int64_t>& wanted) {
  const int64_t count = hook_rows(name, value.shape());
  const auto grid = grids.find(stack);
  const bool by_grid = grid != grids.end() && count == grid->second.count();
  const Tensor matrix = as_rows(value, count);
  rows.resize(std::max(rows.size(), wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t row = by_grid ? grid->second.row_at(wanted[i]) : wanted[i];
    if (row >= 0 && row < count) {
      rows[i][name] = slice(matrix, 0, row, row + 1).to_doubles();
    }
  }
}

Tensor Watcher::activation(const std::string& name, const Tensor& value) {
  Tensor result = value;
  if (name.ends_with(".hook_z") && change_heads && last_place_.name + ".hook_z" == name) {
    result = change_heads(last_place_, last_record_, result);
  }
  const auto [first, last] = changes.equal_range(name);
  for (auto change = first; change != last; ++change) {
    result = change->second(result);
  }
  hooks.push_back({name, result.shape()});
  if (const auto at = positions.find(stack_of(name)); all_rows && at != positions.end()) {
    keep_rows(name, result, at->first, at->second);
  }
  if (whole.contains(name)) {
    kept.insert_or_assign(name, result.detach());
  }
  if (name == stop_after) {
    throw Stopped{};
  }
  return result;
}

void Watcher::attention(const std::string& name, const AttentionRecord& record) {
  const AttentionPlace place = place_of(name);
  places.push_back(place);
  if (change_heads) {
    last_place_ = place;
    last_record_ = record;
  }
  // A pooling behind the blocks (SigLIP's) is none of theirs, though it is counted as layer 0.
  const bool another = std::any_of(met.begin(), met.end(), [&](const Met& each) {
    return each.place.kind == place.kind && each.place.layer == place.layer &&
           each.place.name != place.name;
  });
  if (attentions && !another && (kind.empty() || kind == place.kind) &&
      (layer < 0 || layer == place.layer)) {
    RecordedAttention each;
    each.place = place;
    each.record = record;
    met.push_back({place, each.heads(), each.queries(), each.keys(), each.offset(),
                   std::holds_alternative<Causal>(record.options.position)});
    bytes_ += record_bytes(record);
    too_many = too_many || bytes_ > most_bytes;
    if (too_many) {
      recorded.clear();
    } else {
      recorded.push_back(std::move(each));
    }
  }
}

void Watcher::adjust(const std::string& name, AttentionOptions& options) {
  if (adjust_attention) {
    adjust_attention(place_of(name), options);
  }
}

}  // namespace heed::explore
