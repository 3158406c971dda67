#include "base/check.h"
#include "models/encoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

EncoderNames fnet_names() {
  EncoderNames names;
  names.base = "fnet";
  names.projection = "embeddings.projection";
  names.pooler = "pooler.dense";
  names.attention_norm = "fourier.output.LayerNorm";
  return names;
}

/// FNet: BERT with a Fourier transform in place of attention. It has no mask: padding that is not
/// left out changes results.
EncoderConfig fnet_config(const Json& config) {
  check_data(!config.boolean_or("use_tpu_fourier_optimizations", false), config.file(),
             "use_tpu_fourier_optimizations is not supported; the plain transform gives the same");
  const Json headless =
      JsonBuilder(config).set("num_attention_heads", int64_t{1}).build(config.file());
  EncoderConfig c = bert_like_config(headless, "FNet", fnet_names());
  c.activation = c.lm_activation = activation_of(config, "hidden_act", "gelu_new");
  c.token_types = size_or(config, "type_vocab_size", 4);
  c.padding = padding_token(config, 3, c.vocab_size);
  c.classifier_dropout = c.dropout;
  c.attention_output_dropout = 0.0;
  c.dropout_after_projection = true;
  c.keeps_pooler = true;
  c.ignored = {"cls.seq_relationship.weight", "cls.seq_relationship.bias"};
  c.make_mixer = [](const Scope&, const Scope&, int64_t, Block::Parts& parts) {
    parts.mixer =
        by_sequence([](const Tensor& x, const Tensor&, const Pass&) { return fnet_mixing(x); });
  };
  return c;
}

}  // namespace

ModelSpec fnet_spec() {
  ModelSpec spec = bert_like_spec("fnet", "FNet", fnet_names(), fnet_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("fnet", "FNet", sizes)
        .set("pad_token_id", sizes.pad_token_id)
        .set("type_vocab_size", int64_t{4});
  };
  return spec;
}

}  // namespace heed
