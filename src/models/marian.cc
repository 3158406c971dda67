#include <cmath>

#include "base/check.h"
#include "models/encoder_decoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"

namespace heed {
namespace {

StackSizes sizes(const Json& config, const std::string& side) {
  StackSizes sizes = stack_sizes(config, side);
  sizes.activation = activation_of(config, "activation_function", "gelu");
  sizes.eps = 1e-5;
  sizes.init = Init::normal(positive_or(config, "init_std", 0.02));
  return sizes;
}

/// Marian: post-LN encoder-decoder with concatenated sinusoids, shared embeddings and a bias on the
/// logits.
class Marian final : public TokenTranslator {
 public:
  Marian(const Json& config, const Scope& root)
      : TokenTranslator(config, "Marian", sizes(config, "encoder"), sizes(config, "decoder"),
                        1024) {
    const bool shared = config.boolean_or("share_encoder_decoder_embeddings", true);
    check_data(!shared || target_.vocabulary == vocab_size_, config.file(),
               "decoder_vocab_size {} differs from vocab_size {}, yet the embeddings are shared",
               target_.vocabulary, vocab_size_);
    check_size(config, root,
               static_cast<double>(vocab_size_) * static_cast<double>(hidden_size_) +
                   stack_parameters(encoder_sizes_, false) +
                   stack_parameters(decoder_sizes_, true));
    const int64_t padding =
        token_or(config, "pad_token_id", target_.vocabulary - 1, target_.vocabulary);
    set_target(config, decoder_sizes_, padding, padding);
    const Scope base = root / "model";
    root.allow_prefix("model.");
    root.ignore({"*.embed_positions.weight"});
    TokenStack::Options options;
    options.sinusoids = SinusoidLayout::concatenated;
    options.scale = config.boolean_or("scale_embedding", false)
                        ? std::sqrt(static_cast<double>(hidden_size_))
                        : 1.0;
    const Init init = *encoder_sizes_.init;
    Embedding source;
    Embedding target;
    if (shared) {
      source = target =
          Embedding(base / "shared", vocab_size_, hidden_size_, init, target_.padding);
      base.alias("encoder.embed_tokens.weight");
      base.alias("decoder.embed_tokens.weight");
    } else {
      source = Embedding(base / "encoder" / "embed_tokens", vocab_size_, hidden_size_, init,
                         token_or(config, "pad_token_id", vocab_size_ - 1, vocab_size_));
      target = Embedding(base / "decoder" / "embed_tokens", target_.vocabulary, hidden_size_, init,
                         target_.padding);
    }
    make_encoder(base, source, options);
    make_decoder(base, target, options);
    const Tensor bias =
        reshape(root.buffer("final_logits_bias", {1, target_.vocabulary}, Init::zeros()),
                {target_.vocabulary});
    head_ = lm_head(config, root / "lm_head", target, bias, init);
  }
};

}  // namespace

ModelSpec marian_spec() {
  ModelSpec spec;
  spec.model_type = "marian";
  spec.kind = ModelKind::encoder_decoder;
  spec.heads = {{"MarianMTModel", "translation", ""}};
  spec.ties = {.prefix = "model.",
               .embedding = "shared.weight",
               .lm_head = "lm_head.weight",
               .copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
               .sides_may_differ = true};
  spec.train_tasks = {"translate", "fid"};
  spec.fresh_config = [](const FreshSizes& sizes) { return stack_fresh_config("marian", sizes); };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Marian>(config, scope);
  };
  return spec;
}

}  // namespace heed
