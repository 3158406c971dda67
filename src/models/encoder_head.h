#pragma once

#include "models/encoder.h"

namespace heed {

/// Which rows belong to the question, i64 [N]: 1 up to each sequence's first `separator`, that
/// included; else 0. Without a separator the first token alone.
Tensor question_rows(const TokenRows& tokens, const ModelInput& input, int64_t separator);

/// The head of a BERT-like model, as config.json's `architectures` names it; where that is null, as
/// the tensors of the file tell.
class EncoderHead {
 public:
  enum class Kind { none, masked, sequence, tokens, question, replaced };

  EncoderHead() = default;
  static Kind kind_of(const Json& config, const Scope& root, const EncoderConfig& encoder);
  /// `base` is the scope of the body. `words` are its embeddings, which a head for masked tokens
  /// shares.
  EncoderHead(Kind kind, const Json& config, const Scope& root, const Scope& base,
              const EncoderConfig& encoder, const Embedding& words);

  /// Logits and loss from the hidden rows after the last block.
  ModelOutput operator()(const Tensor& rows, const TokenRows& tokens,
                         const ModelInput& input) const;

 private:
  void make_lm_head(const Json& config, const Scope& root, const Embedding& words);
  void make_classifier(const Json& config, const Scope& root);
  Tensor dense(const Tensor& rows, const Pass& pass) const;
  ModelOutput classified(const Tensor& rows, const TokenRows& tokens,
                         const ModelInput& input) const;
  ModelOutput answered(const Tensor& rows, const TokenRows& tokens, const ModelInput& input) const;
  Tensor question_mlp(const Tensor& rows, const Pass& pass) const;
  ModelOutput replaced(const Tensor& rows, const TokenRows& tokens, const ModelInput& input) const;

  Kind kind_ = Kind::none;
  EncoderConfig c_;
  ProblemType problem_ = ProblemType::unspecified;
  Linear pooler_, dense_, down_, out_;
  Norm norm_;
};

}  // namespace heed
