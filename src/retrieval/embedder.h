#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"

namespace heed {

/// A text encoder: one vector of length 1 per text.
class Embedder {
 public:
  /// `pooling`: "mean", "cls", or empty for what the model's folder says (else mean).
  Embedder(const std::string& model, const std::string& tokenizer, const std::string& pooling);

  int64_t dimension() const { return model_->hidden_size(); }
  const std::string& pooling() const { return pooling_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Of configuration, weights, tokenizer and pooling, in hexadecimal.
  std::string fingerprint() const;

  /// Vectors [texts.size(), dimension], in the order of the texts. Texts of about the same length
  /// are computed together; a text's vector does not depend on the others. What is longer than the
  /// model's context loses its end.
  std::vector<float> embed(std::span<const std::string> texts) const;

 private:
  void embed_batch(std::span<const std::vector<TokenId>* const> rows,
                   std::span<float* const> out) const;

  std::string path_;
  std::unique_ptr<Model> model_;
  Tokenizer tokenizer_;
  std::string pooling_;
};

}  // namespace heed
