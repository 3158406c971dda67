#include <cmath>

#include "models/encoder_decoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

/// heed-seq2seq, the tutorials' translator: nn.Transformer's post-LN encoder-decoder with a norm
/// after each stack, embeddings times sqrt(d) plus interleaved sinusoids, and a head with a bias.
class Seq2Seq final : public TokenTranslator {
 public:
  Seq2Seq(const Json& config, const Scope& root)
      : TokenTranslator(config, "heed-seq2seq", stack_sizes(config, "encoder"),
                        stack_sizes(config, "decoder"), 512) {
    set_target(config, decoder_sizes_, 0, 1);
    check_size(config, root,
               static_cast<double>(vocab_size_ + 2 * target_.vocabulary) *
                       static_cast<double>(hidden_size_) +
                   stack_parameters(encoder_sizes_, false) +
                   stack_parameters(decoder_sizes_, true));
    const double root_width = std::sqrt(static_cast<double>(hidden_size_));
    TokenStack::Options options;
    options.final_norm = true;
    options.scale = config.boolean_or("scale_embedding", true) ? root_width : 1.0;
    auto embed = [&](const char* side, int64_t count) {
      return Embedding(root / side / "embed_tokens", count, hidden_size_,
                       Init::normal(1.0 / root_width));
    };
    make_encoder(root, embed("encoder", vocab_size_), options);
    const Embedding target = embed("decoder", target_.vocabulary);
    make_decoder(root, target, options);
    head_ =
        tutorial_head(root / "lm_head", target, config.boolean_or("tie_word_embeddings", false));
  }
};

}  // namespace

ModelSpec heed_seq2seq_spec() {
  ModelSpec spec;
  spec.model_type = "heed-seq2seq";
  spec.kind = ModelKind::encoder_decoder;
  spec.heads = {{"", "translation", ""}};
  spec.train_tasks = {"translate", "fid"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    return stack_fresh_config("heed-seq2seq", sizes);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Seq2Seq>(config, scope);
  };
  return spec;
}

}  // namespace heed
