#pragma once

#include "models/common.h"

namespace heed {

/// Retrieval-augmented generation (Lewis et al. 2020): a question encoder (DPR) and a generator
/// (BART, T5) whose answer is marginalised over the documents that were found.
///
/// forward() without context_input_ids gives the question's vector as pooler_output. With them, and
/// with doc_scores, it gives the generator's logits [B * n_docs, T, vocabulary] (or the
/// marginalised ones, where do_marginalize says so) and the negative log-likelihood of the labels:
/// one number per example, or their sum where reduce_loss says so. Labels are whole sequences that
/// begin with decoder_start_token_id, as in transformers.
///
/// Generation marginalises every token (RagToken): decode() gives rows of all documents side by
/// side, logits() the log-probabilities over their mixture. generate_rag() searches as the class
/// asks for.
class Rag final : public Model {
 public:
  Rag(const Json& config, const Scope& root);

  ModelKind kind() const override { return ModelKind::encoder_decoder; }
  int64_t vocab_size() const override { return generator_->vocab_size(); }
  int64_t context_length() const override { return generator_->context_length(); }
  int64_t hidden_size() const override { return generator_->hidden_size(); }
  int64_t num_layers() const override { return generator_->num_layers(); }
  int64_t num_heads() const override { return generator_->num_heads(); }
  void set_gradient_checkpointing(bool on) override;

  void set_kv_type(DType type) override {
    Model::set_kv_type(type);
    generator_->set_kv_type(type);
  }
  EncoderOutput encode(const ModelInput& input) const override;
  SequenceCache new_cache(int64_t capacity) const override {
    return generator_->new_cache(capacity);
  }
  Tensor decode(const Tensor& ids, Pass& pass) const override;

  /// Whether whole answers are marginalised (RagSequence) instead of tokens (RagToken).
  bool marginalizes_sequences() const { return sequences_; }
  /// Whether equal answers that come from several documents count once.
  bool deduplicates() const { return deduplicates_; }
  int64_t padding() const { return padding_; }
  /// Negative log-likelihood of each answer, f32 [B]; `exclude_start`: without the first label
  /// behind the start token, where that is bos_token_id everywhere.
  Tensor negative_log_likelihood(const ModelInput& input, bool exclude_start) const;

 protected:
  ModelOutput do_forward(const ModelInput& input) const override;
  Tensor do_logits(const Tensor& rows) const override;

 private:
  ModelOutput run_generator(const ModelInput& input) const;
  Tensor token_loss(const Tensor& log_probabilities, const Tensor& doc_scores,
                    const Tensor& targets) const;
  Tensor sequence_loss(const Tensor& log_probabilities, const Tensor& doc_scores,
                       const Tensor& targets, bool exclude_start) const;
  Tensor loss_of(const Tensor& logits, const ModelInput& input, bool exclude_start) const;

  std::unique_ptr<Model> question_encoder_, generator_;
  bool sequences_ = false, deduplicates_ = true, marginalizes_ = false, reduces_loss_ = false;
  bool excludes_start_ = false;
  double label_smoothing_ = 0.0;
  int64_t padding_ = 0, bos_ = -1;
};

}  // namespace heed
