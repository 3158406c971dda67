#pragma once

#include <functional>

#include "models/task_heads.h"

namespace heed {

/// The sizes of one stack of layers, named as Marian names them.
struct StackSizes {
  int64_t width = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t intermediate_size = 0;
  Activation activation = Activation::relu;
  double eps = 1e-5;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  double activation_dropout = 0.0;
  std::optional<Init> init = {};  ///< of the matrices; default Glorot's
  bool pre_norm = false;          ///< norms before the parts, or after their residuals
  bool key_bias = true;           ///< false: keys are projected without a bias (Whisper)
  bool attention_bias = true;     ///< false: no projection of attention has a bias
  /// Makes what stands in place of a layer's self-attention, from the scope self_attn; may be
  /// empty.
  std::function<Block::Mixer(const Scope& scope, int64_t layer)> make_mixer = nullptr;

  int64_t head_dim() const { return width / heads; }
};

/// d_model, SIDE_layers, SIDE_attention_heads, SIDE_ffn_dim, activation_function, dropout … of a
/// configuration; `side` is "encoder" or "decoder".
StackSizes stack_sizes(const Json& config, const std::string& side);
/// Elements of the stack's matrices, for check_size().
double stack_parameters(const StackSizes& sizes, bool cross);

/// layers.N.{self_attn, encoder_attn, fc1, fc2} with their norms.
std::vector<Block> stack_blocks(const Scope& scope, const StackSizes& sizes, bool causal,
                                bool cross);

/// Embedded tokens times a factor plus positions, blocks, and a final norm where there is one: one
/// side of the BART-like encoder-decoders and of most of the tutorials' models.
class TokenStack {
 public:
  struct Options {
    StackSizes sizes;
    int64_t context = 0;
    double scale = 1.0;  ///< of the embeddings
    SinusoidLayout sinusoids = SinusoidLayout::interleaved;
    bool learned_positions = false;  ///< embed_positions.weight instead of sinusoids
    /// Whether a file's embed_positions.weight takes the sinusoids' place (Marian, Pegasus).
    bool stored_sinusoids = false;
    int64_t position_offset = 0;  ///< row of the first position
    /// Positions count tokens other than this one, which has zeros for a position (M2M-100).
    std::optional<int64_t> uncounted_token = {};
    bool embedding_norm = false;  ///< layernorm_embedding, after the positions
    bool causal = false;
    bool cross = false;
    bool final_norm = false;
    const char* hidden_name = "hidden_states";
  };
  TokenStack() = default;
  /// Learned positions, blocks and norm come from the scope.
  TokenStack(const Scope& scope, Embedding tokens, const Options& options);

  Tensor operator()(const Tensor& ids, const Tensor& positions, const Pass& pass, bool recompute,
                    const TokenRows* tokens) const;
  /// The same for rows that are embedded already: adds positions and runs the blocks.
  Tensor run(const Tensor& embedded, const Tensor& positions, const Pass& pass, bool recompute,
             const TokenRows* tokens) const;
  const Embedding& tokens() const { return tokens_; }

 private:
  struct Sinusoids;
  Tensor position_rows(const Tensor& positions, const Tensor& ids, const Pass& pass) const;
  Tensor run_embedded(const Tensor& embedded, const Tensor& position_rows, const Pass& pass,
                      bool recompute, const TokenRows* tokens) const;

  Options options_;
  Embedding tokens_;
  Tensor table_;  ///< of positions, [offset + context, width]; undefined: sinusoids
  Norm embedding_norm_;
  std::shared_ptr<Sinusoids> sinusoids_;
  std::vector<Block> blocks_;
  Norm norm_;
};

/// Glorot's uniform initialiser, which nn.Transformer uses.
Init glorot(int64_t in, int64_t out);

/// The tutorials' layer over words, with a bias: the embeddings' own weights, or some of its own.
Linear tutorial_head(const Scope& scope, const Embedding& words, bool tied);

/// The sizes of the simple encoder; `attention_bias` and `pre_norm` where the configuration says
/// so.
StackSizes simple_sizes(const Json& config);
/// The simple encoder of the tutorials: embed_tokens, learned embed_positions, layers.N, and with
/// `final_norm` a layer_norm behind them.
TokenStack simple_encoder(const Json& config, const Scope& scope, const StackSizes& sizes,
                          bool causal);

/// A model of the simple encoder with something behind it.
class SimpleEncoderModel : public SizedModel {
 public:
  ModelKind kind() const override { return ModelKind::encoder; }
  EncoderOutput encode(const ModelInput& input) const override;

 protected:
  /// `name`: in messages.
  SimpleEncoderModel(const Json& config, const Scope& scope, const char* name, const InputUse& use,
                     bool causal, const StackSizes& sizes);
  TokenRows read(const ModelInput& input, bool skip_padding) const;
  /// Hidden rows after the last block.
  Tensor run(const TokenRows& tokens, const ModelInput& input) const;

  StackSizes sizes_;
  TokenStack stack_;

 private:
  const char* name_;
  InputUse use_;
};

/// Places of a sequence of features [B, N, size] as if they were tokens: layout, positions and
/// mask, with `ids` all 0.
TokenRows feature_places(const Tensor& features, const Tensor& mask, int64_t size,
                         bool skip_padding, const char* name);
/// The features themselves, [rows, size].
Tensor feature_rows(const Tensor& features, const TokenRows& places);

}  // namespace heed
