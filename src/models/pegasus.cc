#include "models/registry.h"
#include "models/seq2seq.h"

namespace heed {

/// Pegasus: pre-norm with Marian's sinusoids and a norm after each stack.
ModelSpec pegasus_spec() {
  Seq2SeqConfig family;
  family.family = "Pegasus";
  family.pre_norm = true;
  family.final_norm = true;
  family.padding = 0;
  family.start = 0;
  family.sides_may_differ = true;
  return seq2seq_spec("pegasus", family);
}

}  // namespace heed
