#include "models/registry.h"
#include "models/seq2seq.h"

namespace heed {

/// M2M-100 and NLLB: pre-norm, ReLU, tensor2tensor's sinusoids from pad_token_id + 1 on, which
/// count real tokens only. The target's language is the first token (forced_bos_token_id).
ModelSpec m2m_100_spec() {
  Seq2SeqConfig family;
  family.family = "M2M100";
  family.pre_norm = true;
  family.final_norm = true;
  family.activation = "relu";
  family.scale_embedding = true;
  family.logits_bias = false;
  family.sinusoids = SinusoidLayout::tensor2tensor;
  family.positions_count_real_tokens = true;
  family.padding = 1;
  family.start = 2;
  family.sides_may_differ = true;
  return seq2seq_spec("m2m_100", family);
}

}  // namespace heed
