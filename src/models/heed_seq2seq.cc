#include <cmath>

#include "base/check.h"
#include "models/encoder_decoder.h"
#include "models/layers.h"
#include "models/registry.h"

namespace heed {
namespace {

/// heed-seq2seq, the tutorials' translator: nn.Transformer's post-LN encoder-decoder with a norm
/// after each stack, embeddings times sqrt(d) plus interleaved sinusoids, and a head with a bias.
class Seq2Seq final : public EncoderDecoder {
 public:
  Seq2Seq(const Json& config, const Scope& root) {
    const StackSizes encoder = stack_sizes(config, "encoder");
    const StackSizes decoder = stack_sizes(config, "decoder");
    width_ = encoder.width;
    layers_ = encoder.layers;
    context_ = extent_or(config, "max_position_embeddings", 512);
    vocabulary_ = extent(config, "vocab_size");
    target_.vocabulary = extent_or(config, "decoder_vocab_size", vocabulary_);
    target_.layers = decoder.layers;
    target_.heads = decoder.heads;
    target_.head_width = decoder.head_width();
    target_.padding = token_or(config, "pad_token_id", 0, target_.vocabulary);
    target_.start = token_or(config, "decoder_start_token_id", 1, target_.vocabulary);
    check_size(
        config, root,
        static_cast<double>(vocabulary_ + 2 * target_.vocabulary) * static_cast<double>(width_) +
            stack_parameters(encoder, false) + stack_parameters(decoder, true));
    const double root_width = std::sqrt(static_cast<double>(width_));
    TokenStack::Options options;
    options.context = context_;
    options.final_norm = true;
    options.scale = config.boolean_or("scale_embedding", true) ? root_width : 1.0;
    auto embed = [&](const char* side, int64_t count) {
      return Embedding(root / side / "embed_tokens", count, width_, Init::normal(1.0 / root_width));
    };
    options.sizes = encoder;
    options.hidden_name = "encoder_hidden_states";
    encoder_ = TokenStack(root / "encoder", embed("encoder", vocabulary_), options);
    options.sizes = decoder;
    options.hidden_name = "decoder_hidden_states";
    options.causal = options.cross = true;
    decoder_ = TokenStack(root / "decoder", embed("decoder", target_.vocabulary), options);
    if (config.boolean_or("tie_word_embeddings", false)) {
      root.alias("lm_head.weight");
      head_ = Linear(decoder_.tokens().weight(),
                     (root / "lm_head").parameter("bias", {target_.vocabulary}, Init::zeros()));
    } else {
      head_ = Linear(root / "lm_head", width_, target_.vocabulary,
                     {.init = glorot(width_, target_.vocabulary)});
    }
  }

  int64_t context() const override { return context_; }
  int64_t layers() const override { return layers_; }
  int64_t heads() const override { return target_.heads; }

 protected:
  TokenRows read_source(const ModelInput& input, bool skip_padding) const override {
    check_inputs(input, {.decoder = true}, "heed-seq2seq");
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
  int64_t layers_ = 0, context_ = 0, vocabulary_ = 0;
  TokenStack encoder_, decoder_;
};

}  // namespace

std::unique_ptr<Model> make_heed_seq2seq(const Json& config, const Scope& scope) {
  return std::make_unique<Seq2Seq>(config, scope);
}

}  // namespace heed
