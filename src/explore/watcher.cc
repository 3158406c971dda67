#include "explore/watcher.h"

#include "heed/ops.h"

namespace heed::explore {

Tensor as_rows(const Tensor& value, int64_t rows) {
  return reshape(value.detach().to(DType::f32).contiguous(), {rows, value.numel() / rows});
}

std::string stack_of(const std::string& hook) {
  for (const char* stack : {"encoder.", "decoder.", "text_model.", "vision_model."}) {
    if (hook.starts_with(stack)) {
      return stack;
    }
  }
  return "";
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
  if (all_rows) {
    const auto at = positions.find(stack_of(name));
    // Activations are [rows, …]; those of whole batches in layers of the API are [1, rows, …].
    const int64_t count =
        result.rank() >= 3 && result.size(0) == 1 ? result.size(1) : result.size(0);
    if (at != positions.end() && at->second < count) {
      const Tensor folded = as_rows(result, count);
      rows[name] = slice(folded, 0, at->second, at->second + 1).to_doubles();
    }
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
  const AttentionPlace place = parse_place(name);
  places.push_back(place);
  if (change_heads) {
    last_place_ = place;
    last_record_ = record;
  }
  // A pooling behind the blocks (SigLIP's) is none of theirs, though it is counted as layer 0.
  const bool another =
      std::any_of(recorded.begin(), recorded.end(), [&](const RecordedAttention& each) {
        return each.place.kind == place.kind && each.place.layer == place.layer &&
               each.place.name != place.name;
      });
  if (attentions && !another && (kind.empty() || kind == place.kind) &&
      (layer < 0 || layer == place.layer)) {
    RecordedAttention each;
    each.place = place;
    each.record = record;
    recorded.push_back(std::move(each));
  }
}

void Watcher::adjust(const std::string& name, AttentionOptions& options) {
  if (adjust_attention) {
    adjust_attention(parse_place(name), options);
  }
}

}  // namespace heed::explore
