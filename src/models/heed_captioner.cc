#include <cmath>

#include "models/encoder_decoder.h"
#include "models/fresh_config.h"
#include "models/layer_stack.h"
#include "models/registry.h"

namespace heed {
namespace {

/// heed-captioner: features of image regions (36 x 2048 by default) through one projection, and
/// heed-seq2seq's decoder, which looks at them by cross-attention. Sinusoidal positions are added
/// to the regions where config.json says `region_positions`: frames of a film have an order.
class Captioner final : public EncoderDecoder {
 public:
  Captioner(const Json& config, const Scope& root) {
    const StackSizes decoder = stack_sizes(config, "decoder");
    hidden_size_ = decoder.width;
    features_ = size_or(config, "feature_size", 2048);
    context_length_ = size_or(config, "max_position_embeddings", 128);
    target_.vocabulary = size_of(config, "vocab_size");
    set_target(config, decoder, 0, 1);
    check_size(config, root,
               static_cast<double>(2 * target_.vocabulary + features_) *
                       static_cast<double>(hidden_size_) +
                   stack_parameters(decoder, true));
    dropout_ = decoder.dropout;
    region_positions_ = config.boolean_or("region_positions", false);
    regions_ = Linear(root / "encoder" / "input", features_, hidden_size_,
                      {.init = glorot(features_, hidden_size_)});
    const double root_width = std::sqrt(static_cast<double>(hidden_size_));
    TokenStack::Options options;
    options.sizes = decoder;
    options.context = context_length_;
    options.scale = root_width;
    options.final_norm = options.causal = options.cross = true;
    options.hidden_name = "decoder_hidden_states";
    decoder_ = TokenStack(root / "decoder",
                          Embedding(root / "decoder" / "embed_tokens", target_.vocabulary,
                                    hidden_size_, Init::normal(1.0 / root_width)),
                          options);
    head_ = Linear(root / "lm_head", hidden_size_, target_.vocabulary,
                   {.init = glorot(hidden_size_, target_.vocabulary)});
  }

  ModelKind kind() const override { return ModelKind::vision_decoder; }
  int64_t context_length() const override { return context_length_; }
  int64_t num_layers() const override { return target_.layers; }
  int64_t num_heads() const override { return target_.heads; }

 protected:
  TokenRows read_source(const ModelInput& input, bool skip_padding) const override {
    check_inputs(input, {.decoder = true, .features = true}, "heed-captioner");
    return feature_places(input.features, input.attention_mask, features_, skip_padding,
                          "features");
  }

  Tensor run_encoder(const TokenRows& source, const ModelInput& input, Pass& pass) const override {
    Tensor rows = regions_(feature_rows(input.features, source));
    if (region_positions_) {
      const Tensor table =
          sinusoidal_positions(source.length, hidden_size_, SinusoidLayout::interleaved);
      rows = add(rows, embedding(table, source.positions).to(rows.dtype()));
    }
    observe_hidden("encoder_hidden_states", 0, source, rows);
    return observe("hook_embed", pass.dropout(rows, dropout_));
  }

  Tensor run_decoder(const Tensor& ids, const Tensor& positions, Pass& pass,
                     const TokenRows* tokens) const override {
    return decoder_(ids, positions, pass, gradient_checkpointing_, tokens);
  }

 private:
  int64_t features_ = 0, context_length_ = 0;
  double dropout_ = 0.0;
  bool region_positions_ = false;
  Linear regions_;
  TokenStack decoder_;
};

}  // namespace

ModelSpec heed_captioner_spec() {
  ModelSpec spec;
  spec.model_type = "heed-captioner";
  spec.kind = ModelKind::vision_decoder;
  spec.reads_features = true;
  spec.heads = {{"", "image-to-text", ""}};
  spec.train_tasks = {"caption"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    return stack_fresh_config("heed-captioner", sizes);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Captioner>(config, scope);
  };
  return spec;
}

}  // namespace heed
