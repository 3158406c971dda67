#include <cmath>

#include "base/check.h"
#include "models/encoder_decoder.h"
#include "models/layers.h"
#include "models/registry.h"

namespace heed {
namespace {

/// Marian: post-LN encoder-decoder with concatenated sinusoids, shared embeddings and a bias on the
/// logits.
class Marian final : public EncoderDecoder {
 public:
  Marian(const Json& config, const Scope& root) {
    const StackSizes encoder = sizes(config, "encoder");
    const StackSizes decoder = sizes(config, "decoder");
    width_ = encoder.width;
    layers_ = encoder.layers;
    context_ = extent_or(config, "max_position_embeddings", 1024);
    vocabulary_ = extent(config, "vocab_size");
    const bool shared = config.boolean_or("share_encoder_decoder_embeddings", true);
    target_.vocabulary = extent_or(config, "decoder_vocab_size", vocabulary_);
    check_data(!shared || target_.vocabulary == vocabulary_, config.file(),
               "decoder_vocab_size {} differs from vocab_size {}, yet the embeddings are shared",
               target_.vocabulary, vocabulary_);
    check_size(config, root,
               static_cast<double>(vocabulary_) * static_cast<double>(width_) +
                   stack_parameters(encoder, false) + stack_parameters(decoder, true));
    target_.layers = decoder.layers;
    target_.heads = decoder.heads;
    target_.head_width = decoder.head_width();
    target_.padding = token_or(config, "pad_token_id", target_.vocabulary - 1, target_.vocabulary);
    target_.start = token_or(config, "decoder_start_token_id", target_.padding, target_.vocabulary);
    const Scope base = root / "model";
    root.allow_prefix("model.");
    root.ignore({"*.embed_positions.weight"});
    TokenStack::Options options;
    options.context = context_;
    options.sinusoids = SinusoidLayout::concatenated;
    options.scale =
        config.boolean_or("scale_embedding", false) ? std::sqrt(static_cast<double>(width_)) : 1.0;
    const Init init = *encoder.init;
    Embedding source;
    Embedding target;
    if (shared) {
      source = target = Embedding(base / "shared", vocabulary_, width_, init, target_.padding);
      base.alias("encoder.embed_tokens.weight");
      base.alias("decoder.embed_tokens.weight");
    } else {
      source = Embedding(base / "encoder" / "embed_tokens", vocabulary_, width_, init,
                         token_or(config, "pad_token_id", vocabulary_ - 1, vocabulary_));
      target = Embedding(base / "decoder" / "embed_tokens", target_.vocabulary, width_, init,
                         target_.padding);
    }
    options.sizes = encoder;
    options.hidden_name = "encoder_hidden_states";
    encoder_ = TokenStack(base / "encoder", source, options);
    options.sizes = decoder;
    options.hidden_name = "decoder_hidden_states";
    options.causal = options.cross = true;
    decoder_ = TokenStack(base / "decoder", target, options);
    const Tensor bias =
        reshape(root.buffer("final_logits_bias", {1, target_.vocabulary}, Init::zeros()),
                {target_.vocabulary});
    if (config.boolean_or("tie_word_embeddings", true)) {
      root.alias("lm_head.weight");
      head_ = Linear(target.weight(), bias);
    } else {
      head_ = Linear((root / "lm_head").weight("weight", {target_.vocabulary, width_}, init), bias);
    }
  }

  int64_t context() const override { return context_; }
  int64_t layers() const override { return layers_; }
  int64_t heads() const override { return target_.heads; }

 protected:
  TokenRows read_source(const ModelInput& input, bool skip_padding) const override {
    check_inputs(input, {.decoder = true}, "Marian");
    TokenRows tokens = token_rows(input.input_ids, input.attention_mask, vocabulary_, skip_padding);
    check_length(tokens.length, context_);
    return tokens;
  }

  Tensor run_encoder(const TokenRows& source, const ModelInput&, Pass& pass) const override {
    return encoder_(source.ids, source.positions, pass, recompute_, &source);
  }

  Tensor run_decoder(const Tensor& ids, const Tensor& positions, Pass& pass,
                     const TokenRows* tokens) const override {
    return decoder_(ids, positions, pass, recompute_, tokens);
  }

 private:
  static StackSizes sizes(const Json& config, const std::string& side) {
    StackSizes sizes = stack_sizes(config, side);
    sizes.activation = activation_of(config, "activation_function", "gelu");
    sizes.eps = 1e-5;
    sizes.init = Init::normal(positive_or(config, "init_std", 0.02));
    return sizes;
  }

  int64_t layers_ = 0, context_ = 0, vocabulary_ = 0;
  TokenStack encoder_, decoder_;
};

}  // namespace

std::unique_ptr<Model> make_marian(const Json& config, const Scope& scope) {
  return std::make_unique<Marian>(config, scope);
}

}  // namespace heed
