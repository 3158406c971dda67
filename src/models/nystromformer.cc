#include "base/check.h"
#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/sparse_mixers.h"

namespace heed {
namespace {

EncoderNames nystromformer_names() {
  EncoderNames names;
  names.base = "nystromformer";
  names.sequence_dense = "classifier.dense";
  names.sequence_out = "classifier.out_proj";
  return names;
}

/// Nyströmformer: BERT whose softmax goes through landmarks, beside a convolution of the values.
EncoderConfig nystromformer_config(const Json& config) {
  EncoderConfig c = bert_like_config(config, "Nystromformer", nystromformer_names());
  c.norm.eps = positive_or(config, "layer_norm_eps", 1e-5);
  c.activation = c.lm_activation = c.sequence_activation =
      activation_of(config, "hidden_act", "gelu_new");
  c.padding = padding_token(config, 1, c.vocab_size);
  c.position_offset = 2;
  c.classifier_dropout = c.sequence_input_dropout = c.dropout;
  check_data(!config.boolean_or("inv_coeff_init_option", false), config.file(),
             "inv_coeff_init_option is not supported; leave it out");
  const int64_t landmarks = size_or(config, "num_landmarks", 64);
  const int64_t length = size_or(config, "segment_means_seq_len", 64);
  const bool mentioned = config.mentions("conv_kernel_size");
  const int64_t kernel = config.integer_or("conv_kernel_size", mentioned ? 0 : 65, 1, 1 << 16);
  check_data(kernel == 0 || kernel % 2 == 1, config.file(),
             "conv_kernel_size is {}; it must be odd", kernel);
  const EncoderConfig plain = c;
  c.make_mixer = [plain, landmarks, kernel, full = landmarks == length](
                     const Scope&, const Scope& scope, int64_t, Block::Parts& parts) {
    parts.mixer = nystrom_mixer(scope, plain, landmarks, kernel, full);
  };
  return c;
}

}  // namespace

ModelSpec nystromformer_spec() {
  ModelSpec spec =
      bert_like_spec("nystromformer", "Nystromformer", nystromformer_names(), nystromformer_config);
  spec.fresh_config = [](const FreshSizes& sizes) {
    return bert_like_fresh_config("nystromformer", "Nystromformer", sizes)
        .set("pad_token_id", sizes.pad_token_id)
        .set("num_landmarks", std::max<int64_t>(1, std::min<int64_t>(64, sizes.context_length / 4)))
        .set("segment_means_seq_len", sizes.context_length);
  };
  return spec;
}

}  // namespace heed
