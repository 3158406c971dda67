#pragma once

#include "models/common.h"
#include "models/layer_stack.h"
#include "models/task_heads.h"

namespace heed {

/// What models that read one sequence and write tokens have in common: the full pass, and the steps
/// of generation with the encoder's keys and values cached once.
class EncoderDecoder : public Model {
 public:
  ModelKind kind() const override { return ModelKind::encoder_decoder; }
  int64_t vocab_size() const override { return target_.vocabulary; }
  int64_t hidden_size() const override { return hidden_size_; }

  ModelOutput do_forward(const ModelInput& input) const override;
  EncoderOutput encode(const ModelInput& input) const override;
  SequenceCache new_cache(int64_t capacity) const override;
  Tensor decode(const Tensor& ids, Pass& pass) const override;
  Tensor do_logits(const Tensor& rows) const override;

  /// What the decoder reads in a full pass over `input`, i64 [B, T]: decoder_input_ids, or what is
  /// made from labels or from the source. Undefined where the input lacks all of them.
  virtual Tensor decoder_ids(const ModelInput& input) const;

 protected:
  /// The decoder's side, as generation sees it.
  struct Target {
    int64_t vocabulary = 0;
    int64_t layers = 0;
    int64_t heads = 0;
    int64_t head_dim = 0;
    int64_t start = 0;    ///< decoder_start_token_id, or kLastLabel
    int64_t padding = 0;  ///< what stands for ignored labels in the decoder's input
  };

  /// The decoder's sizes, and the tokens it is padded with and starts from, where the
  /// configuration does not say.
  void set_target(const Json& config, const StackSizes& decoder, int64_t padding, int64_t start);

  /// A full pass over both sides, without the head.
  struct BothSides {
    TokenRows source, target;
    EncoderOutput encoded;
    Tensor rows;  ///< of the decoder
  };
  BothSides run_both(const ModelInput& input) const;

  /// Positions and sequences of the input.
  virtual TokenRows read_source(const ModelInput& input, bool skip_padding) const = 0;
  virtual Tensor run_encoder(const TokenRows& source, const ModelInput& input,
                             Pass& pass) const = 0;
  /// `tokens` is null while generating.
  virtual Tensor run_decoder(const Tensor& ids, const Tensor& positions, Pass& pass,
                             const TokenRows* tokens) const = 0;

  int64_t hidden_size_ = 0;
  Target target_;
  Linear head_;
  double head_scale_ = 1.0;  ///< of the rows that the head reads

 private:
  EncoderOutput encode_source(const ModelInput& input, const TokenRows& source) const;
};

/// An encoder-decoder of two token stacks: BART-like models and the tutorials' translator.
class TokenTranslator : public EncoderDecoder {
 public:
  int64_t context_length() const override { return context_length_; }
  int64_t decoder_context_length() const override { return decoder_context_; }
  int64_t num_layers() const override { return encoder_sizes_.layers; }
  int64_t num_heads() const override { return target_.heads; }

 protected:
  /// `name`: in messages; `context`: of both sides, where the configuration does not say.
  TokenTranslator(const Json& config, std::string name, const StackSizes& encoder,
                  const StackSizes& decoder, int64_t context);
  /// The stacks scope.encoder and scope.decoder; the sizes are added to the options.
  void make_encoder(const Scope& scope, const Embedding& tokens, TokenStack::Options options);
  void make_decoder(const Scope& scope, const Embedding& tokens, TokenStack::Options options);

  TokenRows read_source(const ModelInput& input, bool skip_padding) const override;
  Tensor run_encoder(const TokenRows& source, const ModelInput& input, Pass& pass) const override;
  Tensor run_decoder(const Tensor& ids, const Tensor& positions, Pass& pass,
                     const TokenRows* tokens) const override;

  StackSizes encoder_sizes_, decoder_sizes_;
  int64_t context_length_ = 0, vocab_size_ = 0;
  int64_t decoder_context_ = 0;  ///< context_length_, where both sides have one
  bool reads_global_mask_ = false, reads_answers_ = false;

 private:
  std::string name_;
  TokenStack encoder_, decoder_;
};

/// In place of a start token: the last label of a sequence comes first (mBART).
inline constexpr int64_t kLastLabel = -2;

/// decoder_input_ids, or the labels shifted right by one behind the start token.
Tensor target_ids(const ModelInput& input, int64_t start, int64_t padding);

/// A token of a configuration, e.g. decoder_start_token_id.
int64_t token_or(const Json& config, std::string_view key, int64_t otherwise, int64_t vocabulary);

}  // namespace heed
