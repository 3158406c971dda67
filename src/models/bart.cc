#include "models/registry.h"
#include "models/seq2seq.h"

namespace heed {

/// BART: post-norm, with a norm over the embeddings and learned positions that start at row 2.
ModelSpec bart_spec() {
  Seq2SeqConfig family;
  family.family = "Bart";
  family.embedding_norm = true;
  family.learned_positions = true;
  family.position_offset = 2;
  family.padding = 1;
  family.start = 2;
  family.decoder_reads_source = true;
  family.sides_may_differ = true;
  return seq2seq_spec("bart", family);
}

/// mBART: BART with norms before the parts and after the stacks; the language token that ends the
/// labels starts the decoder.
ModelSpec mbart_spec() {
  Seq2SeqConfig family;
  family.family = "MBart";
  family.pre_norm = true;
  family.final_norm = true;
  family.embedding_norm = true;
  family.learned_positions = true;
  family.position_offset = 2;
  family.padding = 1;
  family.start = 2;
  family.starts_with_last_label = true;
  family.decoder_reads_source = true;
  family.sides_may_differ = true;
  return seq2seq_spec("mbart", family);
}

}  // namespace heed
