#include <algorithm>

#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/seq2seq.h"

namespace heed {

/// LED: BART whose encoder is a Longformer's, with limits of its own for each side.
ModelSpec led_spec() {
  Seq2SeqConfig family;
  family.family = "LED";
  family.base = "led";
  family.longformer_encoder = true;
  family.embedding_norm = true;
  family.learned_positions = true;
  family.padding = 1;
  family.start = 2;
  family.decoder_reads_source = true;
  ModelSpec spec = seq2seq_spec("led", family);
  spec.fresh_config = [](const FreshSizes& sizes) {
    const int64_t window = std::min<int64_t>(512, sizes.context_length / 4 / 2 * 2);
    return stack_fresh_config("led", sizes)
        .set("scale_embedding", false)
        .set("max_encoder_position_embeddings", sizes.context_length)
        .set("max_decoder_position_embeddings", sizes.context_length)
        .set("attention_window", std::max<int64_t>(2, window));
  };
  return spec;
}

}  // namespace heed
