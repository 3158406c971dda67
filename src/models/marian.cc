#include "models/registry.h"
#include "models/seq2seq.h"

namespace heed {

/// Marian: post-norm with concatenated sinusoids, a bias on the logits, and maybe a vocabulary for
/// each side.
ModelSpec marian_spec() {
  Seq2SeqConfig family;
  family.family = "Marian";
  family.generation_class = "MTModel";
  family.sides_may_differ = true;
  return seq2seq_spec("marian", family);
}

}  // namespace heed
