#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/pipelines.h"

namespace heed {

/// The encoder of an index: one vector per text, of length 1 (with DPR as it comes).
class Embedder {
 public:
  /// `pooling`: "mean", "cls", "max", "pooler", or empty for what the model says (else mean).
  /// "pooler" is the model's pooler_output as it is, to be compared by inner product (DPR).
  /// `many`: for many texts; opening takes longer, and products are faster.
  Embedder(const std::string& model, const std::string& tokenizer, const std::string& pooling,
           bool many = false);

  int64_t dimension() const { return dimension_; }
  std::string pooling() const { return std::string(name_of(pooling_)); }
  const Tokenizer& tokenizer() const { return features_.loaded().tokenizer; }
  /// Of configuration, weights as they are stored, tokenizer and pooling, in hexadecimal: the same
  /// whatever type the model computes in.
  std::string fingerprint() const;

  /// Vectors [texts.size(), dimension], in the order of the texts. Texts of about the same length
  /// are computed together; a text's vector does not depend on the others. What is longer than the
  /// model's context loses its end; a text without tokens has a vector of zeros, as far from all
  /// others.
  std::vector<float> embed(std::span<const std::string> texts) const;

 private:
  FeatureExtraction features_;
  Pooling pooling_;
  int64_t dimension_ = 0;
};

}  // namespace heed
