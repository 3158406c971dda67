#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"

namespace heed {

/// A text encoder: one vector per text, of length 1 (with DPR as it comes).
class Embedder {
 public:
  /// `pooling`: "mean", "cls", "pooler", or empty for what the model says (else mean). "pooler" is
  /// the model's pooler_output as it is, to be compared by inner product (DPR).
  Embedder(const std::string& model, const std::string& tokenizer, const std::string& pooling);

  int64_t dimension() const { return dimension_; }
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
  int64_t dimension_ = 0;
};

}  // namespace heed
