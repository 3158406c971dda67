#include "nn/longformer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "heed/ops.h"
#include "heed/runtime.h"
#include "nn/heads.h"

namespace heed {
namespace {

constexpr const char* kLongformer = "longformer_attention";

/// Where each sequence's global tokens are. Sequences with fewer than `count` are filled up with
/// position 0, marked as not real.
struct GlobalTokens {
  int64_t count = 0;  // the most in one sequence
  Tensor position;    // i64 [B, count]
  Tensor real;        // u8 [B, count]
};

GlobalTokens find_global_tokens(const Tensor& mask, int64_t batch, int64_t length) {
  GlobalTokens tokens;
  if (!mask.defined()) {
    return tokens;
  }
  const Tensor flags = mask.to(DType::u8).contiguous();
  const uint8_t* flag = flags.data<uint8_t>();
  for (int64_t b = 0; b < batch; ++b) {
    const auto in_row = std::count_if(flag + b * length, flag + (b + 1) * length,
                                      [](uint8_t value) { return value != 0; });
    tokens.count = std::max<int64_t>(tokens.count, in_row);
  }
  tokens.position = Tensor::zeros({batch, tokens.count}, DType::i64);
  tokens.real = Tensor::zeros({batch, tokens.count}, DType::u8);
  for (int64_t b = 0; b < batch; ++b) {
    int64_t next = b * tokens.count;
    for (int64_t t = 0; t < length; ++t) {
      if (flag[b * length + t] != 0) {
        tokens.position.data<int64_t>()[next] = t;
        tokens.real.data<uint8_t>()[next++] = 1;
      }
    }
  }
  return tokens;
}

/// Rows of x [B, H, T, D] by position [B, N] -> [B, H, N, D]: whole rows are copied.
Tensor take_rows(const Tensor& x, const Tensor& position) {
  const Shape shape{x.size(0), x.size(1), position.size(1)};
  const Tensor rows = Tensor::empty(shape, DType::i64);
  int64_t* row = rows.data<int64_t>();
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    const int64_t* at = position.data<int64_t>() + i / shape[1] * shape[2];
    for (int64_t n = 0; n < shape[2]; ++n) {
      *row++ = i * x.size(2) + at[n];
    }
  }
  return index_rows(reshape(x, {shape[0] * shape[1] * x.size(2), x.size(3)}), rows);
}

void check_inputs(const LongformerInputs& in) {
  check(in.window > 0 && in.window % 2 == 0, kLongformer, "window {} must be even and positive",
        in.window);
  check(in.q.rank() == 4 && in.q.shape() == in.k.shape() && in.q.size(2) == in.v.size(2),
        kLongformer, "q {}, k {} and v {} must be [batch, heads, length, depth] of one length",
        in.q.shape(), in.k.shape(), in.v.shape());
  const Shape positions{in.q.size(0), in.q.size(2)};
  for (const Tensor& mask : {in.global_mask, in.key_padding}) {
    check(!mask.defined() || (mask.shape() == positions && !is_floating(mask.dtype())), kLongformer,
          "masks must be bool or u8 {}", positions);
  }
}

/// Key j is real, and not global: u8 [B, T].
Tensor local_keys(const LongformerInputs& in) {
  Tensor keep = Tensor::full({in.q.size(0), in.q.size(2)}, 1, DType::u8);
  const auto clear = [&](const Tensor& mask, bool where) {
    const Tensor flags = mask.to(DType::u8).contiguous();
    for (int64_t i = 0; i < keep.numel(); ++i) {
      if ((flags.data<uint8_t>()[i] != 0) == where) {
        keep.data<uint8_t>()[i] = 0;
      }
    }
  };
  if (in.key_padding.defined()) {
    clear(in.key_padding, false);
  }
  if (in.global_mask.defined()) {
    clear(in.global_mask, true);
  }
  return keep;
}

/// out with the rows of global tokens replaced by `rows` [B, H, count, D].
Tensor put_rows(const Tensor& out, const Tensor& rows, const GlobalTokens& tokens) {
  const int64_t length = out.size(2);
  const Tensor source = Tensor::empty({out.size(0), length}, DType::i64);
  for (int64_t b = 0; b < out.size(0); ++b) {
    int64_t* from = source.data<int64_t>() + b * length;
    for (int64_t t = 0; t < length; ++t) {
      from[t] = t;
    }
    for (int64_t n = 0; n < tokens.count; ++n) {
      const int64_t at = b * tokens.count + n;
      if (tokens.real.data<uint8_t>()[at] != 0) {
        from[tokens.position.data<int64_t>()[at]] = length + n;
      }
    }
  }
  return take_rows(concat({out, rows}, 2), source);
}

/// A mask of positions as bytes, `otherwise` everywhere where there is none.
std::vector<uint8_t> flags_of(const Tensor& mask, int64_t count, uint8_t otherwise) {
  return mask.defined() ? mask.to(DType::u8).to_vector<uint8_t>()
                        : std::vector<uint8_t>(static_cast<size_t>(count), otherwise);
}

/// The window and the global tokens as a pattern over all pairs of positions.
class WindowPattern final : public ScorePattern {
 public:
  explicit WindowPattern(const LongformerInputs& in)
      : length_(in.q.size(2)),
        reach_(in.window / 2),
        global_(flags_of(in.global_mask, in.q.size(0) * length_, 0)),
        real_(flags_of(in.key_padding, in.q.size(0) * length_, 1)),
        global_keys_(static_cast<size_t>(in.q.size(0))) {
    for (size_t i = 0; i < global_.size(); ++i) {
      if (global_[i] != 0) {
        const auto at = static_cast<int64_t>(i);
        global_keys_[static_cast<size_t>(at / length_)].push_back(at % length_);
      }
    }
  }

  Tensor part(int64_t batch, int64_t /*head*/, std::span<const int64_t> rows, int64_t key_begin,
              int64_t key_end) const override {
    const auto count = static_cast<int64_t>(rows.size());
    Tensor result = Tensor::full({count, key_end - key_begin}, -INFINITY);
    float* out = result.data<float>();
    const uint8_t* global = global_.data() + batch * length_;
    const uint8_t* real = real_.data() + batch * length_;
    bool any = false;
    for (const int64_t i : rows) {
      const auto see = [&](int64_t j) {
        if (real[j] != 0) {
          out[j - key_begin] = 0.0F;
          any = true;
        }
      };
      const int64_t reach = global[i] != 0 ? length_ : reach_;
      const int64_t last = std::min(i + reach + 1, key_end);
      for (int64_t j = std::max(i - reach, key_begin); real[i] != 0 && j < last; ++j) {
        see(j);
      }
      for (const int64_t j : global_keys_[static_cast<size_t>(batch)]) {
        if (real[i] != 0 && j >= key_begin && j < key_end) {
          see(j);
        }
      }
      out += key_end - key_begin;
    }
    return any ? result : Tensor();
  }

 private:
  int64_t length_, reach_;
  std::vector<uint8_t> global_, real_;             // [B, T]
  std::vector<std::vector<int64_t>> global_keys_;  // of each sequence
};

/// What all tokens see: their window and the global tokens.
Tensor window_attention(const LongformerInputs& in, const GlobalTokens& tokens,
                        int64_t first_example) {
  AttentionOptions options;
  options.dropout = in.dropout;
  options.training = in.training;
  options.first_example = first_example;
  // Global keys stand in front, visible to all; they are hidden in the window, so that nothing
  // counts twice.
  options.position = Window{in.window / 2, in.window / 2, tokens.count, tokens.count};
  options.key_padding = local_keys(in);
  if (tokens.count == 0) {
    return attention(in.q, in.k, in.v, options);
  }
  options.key_padding = concat({tokens.real, options.key_padding}, 1);
  return attention(in.q, concat({take_rows(in.k, tokens.position), in.k}, 2),
                   concat({take_rows(in.v, tokens.position), in.v}, 2), options);
}

/// What global tokens see, which is everything.
AttentionOptions everything(const LongformerInputs& in) {
  AttentionOptions options;
  options.dropout = in.dropout;
  options.training = in.training;
  options.key_padding = in.key_padding;
  return options;
}

/// The results of global tokens, projected from x: [B, H, count, D], zeros where there are fewer.
Tensor global_rows(const Tensor& x, const GlobalProjections& global, const LongformerInputs& in,
                   const GlobalTokens& tokens, int64_t first_example) {
  const int64_t heads = in.q.size(1);
  std::vector<Tensor> parts;
  const RandomState random = random_state();
  for (int64_t b = 0; b < x.size(0); ++b) {
    set_random_state(random);  // one stream for the layer; examples differ in it
    const Tensor real = slice(tokens.real, 0, b, b + 1);
    const auto count = static_cast<int64_t>(sum(real.to(DType::f32)).item());
    std::vector<Tensor> rows;
    if (count > 0) {
      AttentionOptions options = everything(in);
      options.first_example = first_example + b;
      if (in.key_padding.defined()) {
        options.key_padding = slice(in.key_padding, 0, b, b + 1).contiguous();
      }
      const Tensor at = slice(reshape(slice(tokens.position, 0, b, b + 1), {-1}), 0, 0, count);
      rows.push_back(attend_everywhere(slice(x, 0, b, b + 1), at, global, options, heads));
    }
    if (count < tokens.count) {
      rows.push_back(Tensor::zeros({1, heads, tokens.count - count, in.v.size(3)}, in.v.dtype()));
    }
    parts.push_back(rows.size() == 1 ? rows.front() : concat(rows, 2));
  }
  return parts.size() == 1 ? parts.front() : concat(parts, 0);
}

/// Whether sequences have different numbers of global tokens.
bool differ_in_number(const GlobalTokens& tokens) {
  const uint8_t* real = tokens.count > 0 ? tokens.real.data<uint8_t>() : nullptr;
  return real != nullptr && std::any_of(real, real + tokens.real.numel(),
                                        [](uint8_t present) { return present == 0; });
}

/// The inputs of sequence b alone.
LongformerInputs example(const LongformerInputs& in, int64_t b) {
  LongformerInputs one = in;
  for (Tensor* each : {&one.q, &one.k, &one.v, &one.global_mask, &one.key_padding}) {
    if (each->defined()) {
      *each = slice(*each, 0, b, b + 1);
    }
  }
  return one;
}

/// Zeros for padded queries.
Tensor without_padding(const Tensor& out, const Tensor& key_padding) {
  if (!key_padding.defined()) {
    return out;
  }
  return out * reshape(key_padding.to(out.dtype()), {out.size(0), 1, out.size(2), 1});
}

/// Rows of x [B, H, T, D] that global tokens have of another kind: 1 and 0, [B, 1, T, 1].
Tensor global_flags(const LongformerInputs& in) {
  return reshape(in.global_mask.to(in.q.dtype()), {in.q.size(0), 1, in.q.size(2), 1});
}

/// Both kinds of queries and keys side by side; each token has zeros in place of the other kind.
PatternInputs all_pairs(const LongformerInputs& in) {
  PatternInputs whole{in.q, in.k, in.v, {}};
  if (in.q_global.defined()) {
    const Tensor rows = global_flags(in);
    whole.q = concat({in.q * add(rows * -1.0, 1.0), in.q_global * rows}, 3);
    whole.k = concat({in.k, in.k_global}, 3);
    whole.global_rows = in.global_mask.to(DType::u8).contiguous();
    whole.global_v = in.v_global.detach().to(DType::f32);
  }
  whole.options.scale = 1.0 / std::sqrt(static_cast<double>(in.q.size(3)));
  whole.options.pattern = std::make_shared<WindowPattern>(in);
  return whole;
}

/// The statistics of every row; no output.
FlashResult row_statistics(LongformerInputs in) {
  const NoGrad no_grad;
  in.training = false;
  const GlobalTokens tokens = find_global_tokens(in.global_mask, in.q.size(0), in.q.size(2));
  RowCollector rows;
  window_attention(in, tokens, 0);
  if (tokens.count > 0) {
    attention(take_rows(in.q_global, tokens.position), in.k_global, in.v_global, everything(in));
    for (std::vector<Tensor>* each : {&rows.row_max, &rows.row_inverse}) {
      each->front() =
          squeeze(put_rows(unsqueeze(each->front(), 3), unsqueeze(each->back(), 3), tokens), 3);
    }
  }
  const auto real = [&](const Tensor& x) {
    return squeeze(without_padding(unsqueeze(x, 3), in.key_padding), 3).contiguous();
  };
  return {{}, real(rows.row_max.front()), real(rows.row_inverse.front())};
}

/// `in` with what an observer changed; has what global tokens need.
Tensor changed_attention(const LongformerInputs& in, const PatternInputs& whole,
                         const AttentionOptions& options) {
  Tensor out = attention(whole.q, whole.k, in.v, options);
  if (!in.q_global.defined()) {
    return out;
  }
  const Tensor rows = global_flags(in);
  return out * add(rows * -1.0, 1.0) + attention(whole.q, whole.k, in.v_global, options) * rows;
}

/// computed() shown to the observer in scope as one matrix of weights. `in` has what global tokens
/// need.
template <class Computed>
Tensor shown_longformer(const LongformerInputs& in, const Computed& computed) {
  const PatternInputs whole = all_pairs(in);
  const auto sparse = [&] {
    FlashResult shown = row_statistics(in);
    const UnobservedScope unobserved;
    shown.output = computed();
    return shown;
  };
  return shown_by_pattern(whole, sparse, [&](const AttentionOptions& options) {
    FlashResult changed = attend_by_pattern(whole, options);
    changed.output = changed_attention(in, whole, options);
    return changed;
  });
}

}  // namespace

Tensor longformer_attention(const LongformerInputs& in) {
  check_inputs(in);
  if (shows_whole_map()) {
    return shown_longformer(in, [&] { return longformer_attention(in); });
  }
  const GlobalTokens tokens = find_global_tokens(in.global_mask, in.q.size(0), in.q.size(2));
  Tensor out = window_attention(in, tokens, 0);
  if (tokens.count > 0) {
    check(in.q_global.defined() && in.k_global.defined() && in.v_global.defined(), kLongformer,
          "global tokens want q_global, k_global and v_global");
    const Tensor rows = attention(take_rows(in.q_global, tokens.position), in.k_global, in.v_global,
                                  everything(in));
    out = put_rows(out, rows, tokens);
  }
  return without_padding(out, in.key_padding);
}

Tensor longformer_attention(const Tensor& x, const GlobalProjections& global,
                            const LongformerInputs& in, int64_t first_example) {
  check_inputs(in);
  const int64_t heads = in.q.size(1);
  if (shows_whole_map()) {
    LongformerInputs all = in;
    if (in.global_mask.defined()) {
      all.q_global = split_heads(global.query(x), heads);
      all.k_global = split_heads(global.key(x), heads);
      all.v_global = split_heads(global.value(x), heads);
    }
    return shown_longformer(all,
                            [&] { return longformer_attention(x, global, in, first_example); });
  }
  const GlobalTokens tokens = find_global_tokens(in.global_mask, in.q.size(0), in.q.size(2));
  if (differ_in_number(tokens)) {  // one by one: places left empty would move the others' sums
    std::vector<Tensor> parts;
    const RandomState random = random_state();
    for (int64_t b = 0; b < x.size(0); ++b) {
      set_random_state(random);
      parts.push_back(
          longformer_attention(slice(x, 0, b, b + 1), global, example(in, b), first_example + b));
    }
    return concat(parts, 0);
  }
  Tensor out = window_attention(in, tokens, first_example);
  if (tokens.count > 0) {
    out = put_rows(out, global_rows(x, global, in, tokens, first_example), tokens);
  }
  return without_padding(out, in.key_padding);
}

}  // namespace heed
