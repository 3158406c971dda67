#include "explore/trace.h"

#include <fmt/format.h>

#include <chrono>

#include "heed/ops.h"
#include "heed/tensor.h"

namespace heed::explore {
namespace {

constexpr int64_t kKeptBytes = int64_t{1} << 30;   // of all attentions of a trace
constexpr int64_t kManyLogits = int64_t{1} << 26;  // elements: 256 MB
constexpr int64_t kMostRowBytes = int64_t{256} << 20;
constexpr size_t kMostRemembered = 2048;

bool is_hook(const std::string& name) { return name.find("hook_") != std::string::npos; }

ShownAttention& entry_of(std::vector<ShownAttention>& all, const std::string& kind) {
  for (ShownAttention& each : all) {
    if (each.kind == kind) {
      return each;
    }
  }
  all.push_back({.kind = kind});
  return all.back();
}

}  // namespace

Trace::Trace(ExplorerModel model, TraceRequest request, std::vector<Intervention> interventions)
    : model_(std::move(model)),
      request_(std::move(request)),
      interventions_(std::move(interventions)) {
  read_input();
  const std::vector<Parameter>& parameters = model_.model->parameters();
  rounds_inputs_ = std::any_of(parameters.begin(), parameters.end(), [](const Parameter& each) {
    return is_quantized(each.tensor.dtype());
  });
  few_logits_ = model_.model->kind() == ModelKind::decoder &&
                static_cast<int64_t>(source_.size()) * model_.model->vocab_size() > kManyLogits;
  const bool cuts =
      std::any_of(interventions_.begin(), interventions_.end(), [](const Intervention& each) {
        return each.type == Intervention::Type::edge && each.mode == "cut";
      });
  if (cuts) {  // whose masks need the sizes of the attentions
    Watcher sizes;
    sizes.attentions = true;
    sizes.most_bytes = 0;
    run(sizes, 1, false);
    note_attentions(sizes);
  }
  const auto began = std::chrono::steady_clock::now();
  Watcher watcher;
  watcher.attentions = true;
  watcher.most_bytes = kKeptBytes;
  if (few_logits_) {
    watcher.whole.insert(kFinalRows);
  }
  const ModelOutput output = run(watcher);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  note_attentions(watcher);
  all_recorded_ = !watcher.too_many;
  recorded_ = std::move(watcher.recorded);
  for (Watcher::Seen& each : watcher.hooks) {
    if (is_hook(each.name)) {
      hooks_.push_back(std::move(each));
    }
  }
  if (input_.pixel_values.defined()) {
    name_patches();
  } else if (model_.model->kind() == ModelKind::vision_decoder) {
    name_regions();
  } else if (input_.input_features.defined()) {
    name_frames();
  } else if (model_.model->kind() == ModelKind::encoder) {
    name_landmarks();
  }
  if (few_logits_) {
    if (!watcher.kept.contains(kFinalRows)) {
      throw Failure(413, "too_large", "the input is too long for the logits of all its positions",
                    "text");
    }
    const auto rows = static_cast<int64_t>(source_.size());
    final_rows_ = as_rows(watcher.kept.at(kFinalRows), rows);
  }
  find_predictions(output);
}

void Trace::note_attentions(const Watcher& watcher) {
  for (const Watcher::Met& each : watcher.met) {
    ShownAttention& shown = entry_of(attentions_, each.place.kind);
    shown.layers = std::max(shown.layers, each.place.layer + 1);
    shown.heads = each.heads;
    shown.queries = each.queries;
    shown.keys = each.keys;
    shown.offset = each.offset;
    shown.causal = each.causal;
  }
}

ModelOutput Trace::run(Watcher& watcher, int64_t copies, bool changed) {
  const NoGrad no_grad;
  if (changed) {
    apply_interventions(watcher);
  }
  try {
    ModelInput input = repeated(copies);
    input.want_logits = !few_logits_;
    return with_row_logits(model_.model->forward(input));
  } catch (const Watcher::Stopped&) {
    return {};
  }
}

bool Trace::has_hook(const std::string& name) const {
  return std::any_of(hooks_.begin(), hooks_.end(),
                     [&](const Watcher::Seen& each) { return each.name == name; });
}

int64_t Trace::rows_of(const std::string& hook) const {
  for (const Watcher::Seen& each : hooks_) {
    if (each.name == hook) {
      return hook_rows(each.name, each.shape);
    }
  }
  throw Failure(404, "not_found", fmt::format("there is no hook '{}'", hook), "name");
}

const std::vector<ShownToken>& Trace::tokens_of(const std::string& stack) const {
  if (const Stage* of = stage(stack)) {
    return of->tokens;
  }
  return has_target() && stack != "encoder." && stack != "vision_model." ? target_ : source_;
}

const RecordedAttention& Trace::attention(const std::string& kind, int64_t layer) {
  const auto find = [&]() -> const RecordedAttention* {
    for (const RecordedAttention& each : recorded_) {
      if (each.place.kind == kind && each.place.layer == layer) {
        return &each;
      }
    }
    return nullptr;
  };
  const RecordedAttention* found = find();
  if (found == nullptr && !all_recorded_) {
    Watcher watcher;
    watcher.attentions = true;
    watcher.kind = kind;
    watcher.layer = layer;
    run(watcher);
    if (!watcher.recorded.empty()) {
      recorded_ = std::move(watcher.recorded);
      found = find();
    }
  }
  if (found == nullptr) {
    throw Failure(404, "not_found", fmt::format("there is no attention {} {}", kind, layer),
                  "layer");
  }
  return *found;
}

std::vector<const RecordedAttention*> Trace::attentions_of(const std::string& kind) {
  if (!all_recorded_) {
    throw Failure(413, "too_large", "the input is too long for a view of all layers at once");
  }
  std::vector<const RecordedAttention*> found;
  for (const RecordedAttention& each : recorded_) {
    if (each.place.kind == kind) {
      found.push_back(&each);
    }
  }
  return found;
}

const std::map<std::string, Row>& Trace::rows_at(const std::string& stack, int64_t position) {
  const auto key = std::make_pair(stack, position);
  const auto found = rows_.find(key);
  if (found != rows_.end()) {
    return found->second;
  }
  if (row_bytes_ > kMostRowBytes) {
    rows_.clear();
    row_bytes_ = 0;
  }
  std::map<std::string, Row> rows = std::move(rows_at(stack, std::vector{position}).front());
  for (const auto& [name, row] : rows) {
    row_bytes_ += static_cast<int64_t>(row.size() * sizeof(double));
  }
  return rows_.emplace(key, std::move(rows)).first->second;
}

std::vector<std::map<std::string, Row>> Trace::rows_at(const std::string& stack,
                                                       const std::vector<int64_t>& positions) {
  Watcher watcher;
  watcher.all_rows = true;
  watcher.positions[stack] = positions;
  if (const Stage* of = stage(stack)) {
    watcher.grids[stack] = of->grid;
    if (of == stages_.data()) {  // which the patches' embeddings go into
      for (const int64_t position : positions) {
        watcher.positions[""].push_back(of->grid.row_at(position));
      }
    }
  }
  watcher.rows.resize(positions.size());
  run(watcher);
  return std::move(watcher.rows);
}

const Stage* Trace::stage(const std::string& stack) const {
  const auto found = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& each) { return each.stack == stack; });
  return found == stages_.end() ? nullptr : &*found;
}

std::vector<Row>& Trace::remembered(const std::string& name) {
  if (remembered_.size() > kMostRemembered && !remembered_.contains(name)) {
    remembered_.clear();
  }
  return remembered_[name];
}

Tensor Trace::activation(const std::string& hook) { return activations({hook}).front(); }

std::vector<Tensor> Trace::activations(const std::vector<std::string>& hooks) {
  Watcher watcher;
  watcher.whole.insert(hooks.begin(), hooks.end());
  for (const Watcher::Seen& each : hooks_) {
    watcher.stop_after = watcher.whole.contains(each.name) ? each.name : watcher.stop_after;
  }
  for (const std::string& hook : hooks) {
    rows_of(hook);  // which fails where there is none
  }
  run(watcher);
  std::vector<Tensor> found;
  found.reserve(hooks.size());
  for (const std::string& hook : hooks) {
    found.push_back(as_rows(watcher.kept.at(hook), rows_of(hook)));
  }
  return found;
}

void Trace::find_predictions(const ModelOutput& output) {
  if (few_logits_) {
    for (int64_t i = 0; i < final_rows_.size(0); ++i) {
      predictions_at_.push_back(i);
    }
    first_position_ = final_rows_.size(0) - 1;
    return;
  }
  const Tensor logits = output.logits_per_image.defined() ? logits_per_text(output) : output.logits;
  logits_ = logits.defined() ? logits.detach().to(DType::f32).contiguous() : Tensor();
  if (!logits_.defined() || logits_.rank() == 2) {
    return;
  }
  if (output.start_logits.defined()) {
    return find_spans();
  }
  for (int64_t i = 0; i < logits_.size(1); ++i) {
    predictions_at_.push_back(i);
  }
  first_position_ = logits_.size(1) - 1;
  if (model_.model->kind() == ModelKind::encoder) {
    const int64_t mask = model_.tokenizer ? model_.tokenizer.special().mask.value_or(-1) : -1;
    const auto found = std::find_if(source_.begin(), source_.end(), [mask](const ShownToken& each) {
      return mask >= 0 && each.id == mask;
    });
    first_position_ = found == source_.end() ? 0 : found - source_.begin();
  }
}

bool Trace::is_pooled() const { return !few_logits_ && logits_.defined() && logits_.rank() == 2; }

Row Trace::logits(int64_t position) {
  if (few_logits_) {
    if (position < 0 || position >= final_rows_.size(0)) {
      throw Failure(400, "invalid",
                    fmt::format("'position' is {}; there are {}", position, final_rows_.size(0)),
                    "position");
    }
    const NoGrad no_grad;
    return model_.model->logits(slice(final_rows_, 0, position, position + 1)).to_doubles();
  }
  if (!logits_.defined()) {
    throw Failure(409, "unsupported",
                  "this model gives vectors, not answers; there is nothing to predict");
  }
  if (logits_.rank() == 2) {
    return slice(logits_, 0, 0, 1).to_doubles();
  }
  if (!spans_.empty()) {
    return span_logits(rows_of_matrix(as_rows(logits_, logits_.size(1))));
  }
  if (position < 0 || position >= logits_.size(1)) {
    throw Failure(400, "invalid",
                  fmt::format("'position' is {}; there are {}", position, logits_.size(1)),
                  "position");
  }
  return slice(slice(logits_, 0, 0, 1), 1, position, position + 1).to_doubles();
}

std::string Trace::name_of(int64_t id) const {
  if (!texts_.empty()) {
    return std::cmp_less(id, texts_.size()) ? texts_[static_cast<size_t>(id)] : "";
  }
  if (!spans_.empty()) {
    return std::cmp_less(id, spans_.size()) ? span_text(spans_[static_cast<size_t>(id)]) : "";
  }
  if (finds_replaced_) {
    return id == 0 ? "original" : "replaced";
  }
  if (points_at_tokens(*model_.model)) {
    return std::cmp_less(id, source_.size()) ? source_[static_cast<size_t>(id)].label : "";
  }
  const bool tokens = few_logits_ || (logits_.defined() && model_.tokenizer &&
                                      logits_.size(-1) >= model_.tokenizer.vocab_size() / 2 &&
                                      logits_.size(-1) == model_.model->vocab_size());
  if (tokens) {
    return token_name(model_.tokenizer, id);
  }
  const Json& config = model_.model->config();
  const std::optional<Json> labels = config.find("id2label");
  const auto name = labels && labels->is_object() ? labels->find(std::to_string(id)) : std::nullopt;
  return name && name->is_string() ? name->string() : fmt::format("LABEL_{}", id);
}

int64_t Trace::bytes() const {
  int64_t bytes = row_bytes_ + (logits_.defined() ? logits_.numel() * 4 : 0);
  bytes += final_rows_.defined() ? final_rows_.numel() * 4 : 0;
  for (const RecordedAttention& each : recorded_) {
    bytes += record_bytes(each.record);
  }
  return bytes;
}

}  // namespace heed::explore
