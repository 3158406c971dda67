#include "models/common.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/check.h"
#include "heed/ops.h"

namespace heed {
double memory_limit() {
  double limit =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    limit = std::min(limit, static_cast<double>(address_space.rlim_cur));
  }
  std::ifstream group("/sys/fs/cgroup/memory.max");
  double group_limit = 0.0;
  if (group >> group_limit) {  // "max" is no number
    limit = std::min(limit, group_limit);
  }
  return limit;
}

namespace {

/// "n_embd is 16777215": the largest whole number of a configuration, which is where to look first
/// when a model is too large.
std::string largest_field(const Json& config) {
  std::string field;
  int64_t largest = 0;
  config.for_each([&](const std::string&, const Json& value) {
    if (value.is_integer() && value.integer() > largest) {
      largest = value.integer();
      field = value.field();
    }
  });
  return fmt::format("{} is {}", field, largest);
}

}  // namespace

void check_size(const Json& config, const Scope& scope, double parameters) {
  constexpr double kSmallest = 18.0 / 32.0;  // bytes of a q4_0 weight
  const double bytes = parameters * (scope.is_fresh() ? 4.0 : kSmallest);
  check_data(bytes <= memory_limit(), config.file(),
             "describes a model of {:.3g} parameters ({:.3g} GB), and {:.3g} GB of memory are "
             "there; its largest number: {}",
             parameters, bytes * 1e-9, memory_limit() * 1e-9, largest_field(config));
}

void check_length(int64_t length, int64_t context) {
  check(length <= context, "forward", "{} tokens are more than the model's context of {}", length,
        context);
}

Tensor padding_mask(const Tensor& mask, int64_t batch, int64_t length, const char* name) {
  if (!mask.defined()) {
    return {};
  }
  check(mask.shape() == Shape({batch, length}), "forward", "{} {} does not fit {} x {} tokens",
        name, mask.shape(), batch, length);
  Tensor result = Tensor::empty({batch, length}, DType::u8);
  const std::vector<double> values = mask.to_doubles();
  bool masks = false;
  for (size_t i = 0; i < values.size(); ++i) {
    check(values[i] == 0.0 || values[i] == 1.0, "forward", "{} holds {}; 0 or 1 is wanted", name,
          values[i]);
    result.data<uint8_t>()[i] = values[i] != 0.0;
    masks = masks || values[i] == 0.0;
  }
  return masks ? result : Tensor();
}

TokenRows token_rows(const Tensor& ids_in, const Tensor& mask, int64_t vocabulary,
                     bool skip_padding, const char* name) {
  check(ids_in.defined(), "forward", "{} is missing", name);
  check(ids_in.rank() == 2 && (ids_in.dtype() == DType::i64 || ids_in.dtype() == DType::i32),
        "forward", "{} must be whole numbers [batch, length], not {} {}", name,
        name_of(ids_in.dtype()), ids_in.shape());
  TokenRows tokens;
  tokens.batch = ids_in.size(0);
  tokens.length = ids_in.size(1);
  check(ids_in.numel() > 0, "forward", "{} {} is empty", name, ids_in.shape());
  const Tensor ids = ids_in.to(DType::i64).contiguous();
  const Tensor padding = padding_mask(mask, tokens.batch, tokens.length, "attention_mask");
  const bool drop = skip_padding && padding.defined();
  std::vector<int64_t> kept, positions, places, lengths;
  for (int64_t b = 0; b < tokens.batch; ++b) {
    int64_t count = 0;
    for (int64_t t = 0; t < tokens.length; ++t) {
      const int64_t place = b * tokens.length + t;
      const int64_t id = ids.data<int64_t>()[place];
      check_data(id >= 0 && id < vocabulary, name,
                 "id {} at [{}, {}] is outside the vocabulary of {}", id, b, t, vocabulary);
      if (!drop || padding.data<uint8_t>()[place] != 0) {
        kept.push_back(id);
        positions.push_back(t);
        places.push_back(place);
        ++count;
      }
    }
    lengths.push_back(count);
  }
  const auto rows = static_cast<int64_t>(kept.size());
  tokens.ids = Tensor::from(kept, {rows});
  tokens.positions = Tensor::from(positions, {rows});
  if (drop) {
    tokens.places = Tensor::from(places, {rows});
    tokens.layout = Layout::ragged(lengths);
  } else {
    tokens.layout = Layout::equal(tokens.batch, tokens.length, padding);
  }
  return tokens;
}

Tensor TokenRows::to_batch(const Tensor& rows) const {
  const int64_t width = rows.size(1);
  if (!places.defined()) {
    return reshape(rows, {batch, length, width});
  }
  // Each padded position reads row N, a row of zeros.
  std::vector<int64_t> source(static_cast<size_t>(batch * length), rows.size(0));
  for (int64_t i = 0; i < places.numel(); ++i) {
    source[static_cast<size_t>(places.data<int64_t>()[i])] = i;
  }
  const Tensor padded = concat({rows, Tensor::zeros({1, width}, rows.dtype())}, 0);
  return reshape(index_rows(padded, Tensor::from(source, {batch * length})),
                 {batch, length, width});
}

Tensor TokenRows::pick(const Tensor& values) const {
  check(values.shape() == Shape({batch, length}), "forward",
        "{} per-token values for {} x {} tokens", values.shape(), batch, length);
  Tensor flat = reshape(values.to(DType::i64).contiguous(), {batch * length});
  if (!places.defined()) {
    return flat;
  }
  Tensor result = Tensor::empty({places.numel()}, DType::i64);
  for (int64_t i = 0; i < places.numel(); ++i) {
    result.data<int64_t>()[i] = flat.data<int64_t>()[places.data<int64_t>()[i]];
  }
  return result;
}

Tensor global_rows(const Tensor& given, const TokenRows& tokens) {
  Tensor mask = padding_mask(given, tokens.batch, tokens.length, "global_attention_mask");
  mask = mask.defined() ? mask : Tensor::full({tokens.batch, tokens.length}, 1, DType::u8);
  const Tensor rows = tokens.pick(mask);
  const Tensor& real = tokens.layout.key_padding;
  Tensor picked = Tensor::empty({rows.numel()}, DType::u8);
  bool any = false;
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const bool global =
        rows.data<int64_t>()[i] != 0 && (!real.defined() || real.data<uint8_t>()[i] != 0);
    picked.data<uint8_t>()[i] = global;
    any = any || global;
  }
  return any ? picked : Tensor();
}

void observe_hidden(const std::string& stack, int64_t index, const TokenRows& tokens,
                    const Tensor& rows) {
  Observer* observer = Observer::current();
  if (observer == nullptr) {
    return;
  }
  // A model that is one half of another reports under that half's name.
  std::string half = HookScope::path();
  half.resize(std::min(half.find('.'), half.size()));
  const bool inside = (half == "encoder" || half == "decoder") && !stack.starts_with(half);
  const bool tower = half == "text_model" || half == "vision_model";
  const std::string name = fmt::format("{}{}.{}",
                                       inside  ? half + "_"
                                       : tower ? half + "_output."
                                               : "",
                                       stack, index);
  if (observer->wants(name)) {
    observer->show(name, tokens.to_batch(rows));
  }
}

Tensor next_token_targets(const TokenRows& tokens, const ModelInput& input) {
  check(input.labels.shape() == Shape({tokens.batch, tokens.length}), "loss",
        "labels {} do not fit {} x {} tokens", input.labels.shape(), tokens.batch, tokens.length);
  const Tensor labels = input.labels.to(DType::i64).contiguous();
  Tensor shifted = Tensor::full({tokens.batch, tokens.length}, -100, DType::i64);
  for (int64_t b = 0; b < tokens.batch; ++b) {
    for (int64_t t = 0; t + 1 < tokens.length; ++t) {
      const int64_t index = b * tokens.length + t;
      shifted.data<int64_t>()[index] = labels.data<int64_t>()[index + 1];
    }
  }
  return tokens.pick(shifted);
}

Tensor same_position_targets(const TokenRows& tokens, const ModelInput& input) {
  return tokens.pick(input.labels);
}

ModelOutput token_results(const Tensor& rows, const TokenRows& tokens, const Linear& head,
                          const ModelInput& input, RowTargets targets,
                          const std::function<Tensor(const Tensor&)>& adjust) {
  ModelOutput output;
  Tensor logits;
  const bool plain = !adjust && !head.low_rank().defined();
  if (input.want_logits || (!plain && input.labels.defined())) {
    logits = head(rows);
    logits = observe("hook_logits", adjust ? adjust(logits) : logits);
  }
  if (input.want_logits) {
    output.logits = tokens.to_batch(logits);
  }
  if (input.labels.defined()) {
    CrossEntropyOptions options;
    options.label_smoothing = input.label_smoothing;
    check(head.layout() == WeightLayout::out_in, "loss", "the head's weight must be [out, in]");
    const Tensor wanted = targets(tokens, input);
    // Quantised weights take f32 rows, whose products they round by themselves.
    const Tensor in = is_quantized(head.weight().dtype()) ? rows : in_products(rows);
    output.loss = plain ? linear_cross_entropy(in, head.weight(), head.bias(), wanted, options)
                        : cross_entropy(logits, wanted, options);
  }
  return output;
}

Pass TokenRows::pass(const ModelInput& input) const {
  Pass pass;
  pass.layout = layout;
  pass.training = input.training;
  pass.first_example = input.first_example;
  return pass;
}

Tensor run_stack(const std::vector<Block>& blocks, const Norm& norm, Tensor rows, const Pass& pass,
                 bool recompute, const TokenRows* tokens, const char* stack) {
  auto hidden = [&](int64_t index, const Tensor& value) {
    if (tokens != nullptr) {
      observe_hidden(stack, index, *tokens, value);
    }
  };
  hidden(0, rows);
  const auto last = static_cast<int64_t>(blocks.size()) - 1;
  rows = run_blocks(blocks, rows, pass, recompute, [&](int64_t layer, const Tensor& value) {
    if (layer < last || !norm.defined()) {
      hidden(layer + 1, value);
    }
  });
  if (norm.defined()) {
    rows = observe("ln_final.hook_normalized", norm(rows));
    hidden(last + 1, rows);
  }
  return rows;
}

SequenceCache self_caches(int64_t layers, int64_t heads, int64_t capacity, int64_t head_dim,
                          DType type) {
  SequenceCache cache;
  for (int64_t i = 0; i < layers; ++i) {
    cache.self.emplace_back(heads, capacity, head_dim, head_dim, 0, type);
  }
  return cache;
}

void advance_caches(const Pass& pass) {
  for (size_t i = 0; i < pass.caches.size(); ++i) {
    pass.caches[i]->length += pass.layout.length_of(static_cast<int64_t>(i));
  }
}

}  // namespace heed
