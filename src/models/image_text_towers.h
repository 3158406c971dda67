#pragma once

#include "models/image_text.h"

namespace heed {

/// Token and position embeddings, blocks, a norm; one row stands for the text.
class TextTower {
 public:
  TextTower(const Scope& scope, const TextTowerConfig& config);
  TokenRows read(const ModelInput& input, const InputUse& use, const std::string& name) const;
  /// Hidden rows after the norm.
  Tensor run(const TokenRows& tokens, const ModelInput& input, bool recompute) const;
  /// One row per text.
  Tensor pooled(const Tensor& rows, const TokenRows& tokens, const ModelInput& input) const;

 private:
  TextTowerConfig c_;
  Embedding tokens_, positions_;
  std::vector<Block> blocks_;
  Norm norm_;
  Linear head_;
};

/// SigLIP's pooling: a learned query attends to all rows; a feed-forward part follows.
class AttentionPool {
 public:
  AttentionPool() = default;
  AttentionPool(const Scope& scope, const EncoderConfig& tower);
  /// x [B, T, hidden_size] -> [B, hidden_size]
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor probe_;
  MultiHeadAttention attention_;
  Norm norm_;
  Linear up_, down_;
  Activation activation_ = Activation::gelu;
};

/// Patches and learned positions, blocks, a norm; one row or a pooled one stands for the image.
class ImageTower {
 public:
  ImageTower(const Json& config, const Scope& scope, const ImageTowerConfig& tower);
  int64_t first_patch() const { return c_.class_token ? 1 : 0; }
  int64_t length() const { return grid_.count() + first_patch(); }
  /// Hidden rows [B, T, hidden_size], after the norm where it is for all of them.
  Tensor run(const ModelInput& input, bool recompute) const;
  /// One row per image; undefined where nothing stands for an image.
  Tensor pooled(const Tensor& rows) const;
  Tensor patch_mean(const Tensor& rows) const;

 private:
  Tensor embed(const ModelInput& input, TokenRows& tokens) const;

  ImageTowerConfig c_;
  Grid grid_;
  Tensor class_, patch_weight_, patch_bias_, positions_;
  Norm pre_norm_, norm_;
  std::vector<Block> blocks_;
  AttentionPool pool_;
};

}  // namespace heed
