#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/utf8.h"
#include "heed/inspect.h"
#include "heed/ops.h"

namespace heed {
namespace {

constexpr std::string_view kResult = ".hook_z";

/// Whether `name` fits `pattern`, where "*" stands for any characters.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// rows [N, heads * width] with the given heads multiplied.
Tensor scale_heads(const Tensor& rows, int64_t heads, const std::vector<double>& scales) {
  const int64_t width = rows.size(1) / heads;
  std::vector<double> factors;
  for (int64_t i = 0; i < rows.size(1); ++i) {
    factors.push_back(scales[static_cast<size_t>(i / width)]);
  }
  return mul(rows, Tensor::from(factors, {rows.size(1)}).to(rows.dtype()));
}

}  // namespace

AttentionPlace parse_place(const std::string& name) {
  AttentionPlace place;
  place.name = name;
  std::string_view rest = name;
  place.kind = "self";
  for (const std::string_view stack : {"encoder", "decoder", "readout"}) {
    if (rest.starts_with(stack) && rest.substr(stack.size()).starts_with('.')) {
      place.kind = stack;
      rest.remove_prefix(stack.size() + 1);
    }
  }
  for (const std::string_view tower : {"text", "vision"}) {
    const std::string stack = std::string(tower) + "_model.";
    if (rest.starts_with(stack)) {
      place.kind = tower;
      rest.remove_prefix(stack.size());
    }
  }
  if (name.ends_with("cross_attn")) {
    place.kind = "cross";
  }
  constexpr std::string_view kBlocks = "blocks.";
  const size_t at = rest.find(kBlocks);
  if (at != std::string_view::npos) {
    for (const char c : rest.substr(at + kBlocks.size())) {
      if (c < '0' || c > '9' || place.layer > 1'000'000) {
        break;
      }
      place.layer = 10 * place.layer + (c - '0');
    }
  }
  return place;
}

Recorder::Recorder(RecorderOptions options) : options_(std::move(options)) {}

bool Recorder::keeps(const AttentionPlace& place) const {
  return options_.attention && (options_.kind.empty() || options_.kind == place.kind) &&
         (options_.layer < 0 || options_.layer == place.layer);
}

bool Recorder::wants(const std::string& name) {
  if (options_.attention &&
      (name.ends_with(".hook_whole_map") || name.ends_with(".hook_grid_map"))) {
    return true;  // sparse attention as one matrix
  }
  if (name.ends_with(kResult) && (options_.gradients || !options_.heads.empty())) {
    return true;
  }
  return std::any_of(options_.activations.begin(), options_.activations.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

Tensor Recorder::activation(const std::string& name, const Tensor& value) {
  Tensor result = value;
  const bool is_result =
      name.ends_with(kResult) && name.substr(0, name.size() - kResult.size()) == last_place_;
  if (is_result && !options_.heads.empty()) {
    const AttentionPlace place = parse_place(last_place_);
    std::vector<double> scales(static_cast<size_t>(last_heads_), 1.0);
    bool any = false;
    for (size_t i = 0; i < options_.heads.size(); ++i) {
      const HeadScale& each = options_.heads[i];
      if (each.layer == place.layer && (each.kind.empty() || each.kind == place.kind)) {
        check(each.head >= 0 && each.head < last_heads_, "Recorder",
              "head {} of layer {} does not exist; '{}' has {} heads", each.head, each.layer,
              last_place_, last_heads_);
        scales[static_cast<size_t>(each.head)] = each.scale;
        scaled_.insert(i);
        any = true;
      }
    }
    result = any ? scale_heads(result, last_heads_, scales) : result;
  }
  if (is_result && options_.gradients && !attentions_.empty() &&
      attentions_.back().place.name == last_place_) {
    // Adding a zero that wants a gradient collects the gradient of what it is added to.
    Tensor probe = Tensor::zeros(result.shape(), result.dtype());
    probe.set_requires_grad(true);
    attentions_.back().probe = probe;
    result = add(result, probe);
  }
  for (const std::string& pattern : options_.activations) {
    if (matches(pattern, name)) {
      activations_.insert_or_assign(name, result.detach());
      break;
    }
  }
  return result;
}

void Recorder::attention(const std::string& name, const AttentionRecord& record) {
  last_place_ = name;
  last_heads_ = record.q.size(1);
  const AttentionPlace place = parse_place(name);
  if (keeps(place)) {
    RecordedAttention recorded;
    recorded.place = place;
    recorded.record = record;
    attentions_.push_back(std::move(recorded));
  }
}

void Recorder::adjust(const std::string& /*name*/, AttentionOptions& options) {
  if (options_.no_causal && std::holds_alternative<Causal>(options.position)) {
    options.position = NoMask{};
  }
}

std::vector<HeadScale> Recorder::unscaled() const {
  std::vector<HeadScale> left;
  for (size_t i = 0; i < options_.heads.size(); ++i) {
    if (!scaled_.contains(i)) {
      left.push_back(options_.heads[i]);
    }
  }
  return left;
}

const RecordedAttention& Recorder::at(const std::string& kind, int64_t layer) const {
  std::set<std::string> there;
  for (const RecordedAttention& each : attentions_) {
    if (each.place.kind == kind && each.place.layer == layer) {
      return each;
    }
    there.insert(fmt::format("{} {}", each.place.kind, each.place.layer));
  }
  fail(ErrorKind::usage, "Recorder", "no attention of kind {} in layer {}; there is {}",
       quote(kind), layer, there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
}

}  // namespace heed
