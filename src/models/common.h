#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/models.h"

namespace heed {

/// A whole number of a configuration that sizes something: 1 … 2^24.
int64_t size_of(const Json& config, std::string_view key);
int64_t size_or(const Json& config, std::string_view key, int64_t otherwise);
/// A number of layers: 1 … 4096.
int64_t layer_count(const Json& config, std::string_view key);
/// A norm's eps or a rotary base: above 0.
double positive_or(const Json& config, std::string_view key, double otherwise);
/// A rate in [0, 1).
double rate_or(const Json& config, std::string_view key, double otherwise);
/// "gelu", "gelu_new", "relu", "silu" … as Hugging Face names them.
Activation activation_of(const Json& config, std::string_view key, std::string_view otherwise);
/// width / heads, refused where it does not divide.
int64_t head_dim(const Json& config, std::string_view width_key, int64_t width,
                 std::string_view heads_key, int64_t heads);
/// The token whose embedding takes no gradient, pad_token_id: null is none, negative counts from
/// the end, as PyTorch does. `otherwise` where config.json does not mention it.
std::optional<int64_t> padding_token(const Json& config, std::optional<int64_t> otherwise,
                                     int64_t vocabulary);
/// The head that config.json's `architectures` asks for, e.g. "BertForMaskedLM"; empty where null.
std::string architecture(const Json& config);
/// Bytes that this process may use: the machine's memory, or less where a limit is set.
double memory_limit();
/// Refuses a configuration whose parameters would not fit that, before anything is allocated.
/// `parameters` counts elements; those of a file may be quantised.
void check_size(const Json& config, const Scope& scope, double parameters);

/// A model that keeps the sizes it is asked about.
class SizedModel : public Model {
 public:
  int64_t vocab_size() const override { return vocab_size_; }
  int64_t context_length() const override { return context_length_; }
  int64_t hidden_size() const override { return hidden_size_; }
  int64_t num_layers() const override { return num_layers_; }
  int64_t num_heads() const override { return num_heads_; }

 protected:
  int64_t vocab_size_ = 0, context_length_ = 0, hidden_size_ = 0, num_layers_ = 0, num_heads_ = 0;
};

/// Refuses an input longer than the model's positions.
void check_length(int64_t length, int64_t context);

/// Tokens of a padded batch as rows.
struct TokenRows {
  Tensor ids;        ///< i64 [N]
  Tensor positions;  ///< i64 [N]: position in the sequence
  Layout layout;
  int64_t batch = 0;
  int64_t length = 0;
  Tensor places;  ///< i64 [N]: row in the padded batch; undefined where nothing was left out

  /// rows [N, w] -> [batch, length, w]; positions that are left out are 0.
  Tensor to_batch(const Tensor& rows) const;
  /// A per-token input [batch, length] -> [N].
  Tensor pick(const Tensor& values) const;
  /// A pass over these rows.
  Pass pass(const ModelInput& input) const;
};
/// Checks ids (against the vocabulary) and mask, and leaves padding out where asked.
TokenRows token_rows(const Tensor& ids, const Tensor& mask, int64_t vocabulary, bool skip_padding,
                     const char* name = "input_ids");

/// Mask as u8 [B, T], or undefined where it masks nothing.
Tensor padding_mask(const Tensor& mask, int64_t batch, int64_t length, const char* name);

/// Which rows attend to all, u8 [rows], by a mask [B, T] of 0 and 1; undefined where none does.
/// Padding attends to nothing.
Tensor global_rows(const Tensor& mask, const TokenRows& tokens);

/// Hands rows to the observer under Hugging Face's name, e.g. "hidden_states.3", as [B, T, w].
void observe_hidden(const std::string& stack, int64_t index, const TokenRows& tokens,
                    const Tensor& rows);

/// Blocks one after the other and the norm behind them, where there is one. What goes in and what
/// each block gives is handed to the observer as `stack`.0 …, the last one normed; not while
/// generating, when `tokens` is null.
Tensor run_stack(const std::vector<Block>& blocks, const Norm& norm, Tensor rows, const Pass& pass,
                 bool recompute, const TokenRows* tokens, const char* stack = "hidden_states");

/// Empty caches of self-attention in all layers.
SequenceCache self_caches(int64_t layers, int64_t heads, int64_t capacity, int64_t head_dim,
                          DType type);
/// The caches have seen the pass's rows.
void advance_caches(const Pass& pass);

/// What each row should predict, i64 [N]: labels at the next position of a causal language model
/// (-100 where there is none), or labels at the same position.
using RowTargets = Tensor (*)(const TokenRows& tokens, const ModelInput& input);
Tensor next_token_targets(const TokenRows& tokens, const ModelInput& input);
Tensor same_position_targets(const TokenRows& tokens, const ModelInput& input);

/// The head's logits where they are wanted, and the loss where there are labels. `adjust`, where it
/// is given, is applied to the logits (soft-caps and scales) and is part of the loss.
ModelOutput token_results(const Tensor& rows, const TokenRows& tokens, const Linear& head,
                          const ModelInput& input, RowTargets targets,
                          const std::function<Tensor(const Tensor&)>& adjust = nullptr);

}  // namespace heed
