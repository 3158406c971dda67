#include <cmath>

#include "base/check.h"
#include "heed/models.h"
#include "models/encoder_decoder.h"
#include "models/registry.h"

namespace heed {
namespace {

/// A convolution over time with a kernel of 3 and padding of 1 on both sides: one linear layer over
/// each frame and its two neighbours.
class Convolution {
 public:
  Convolution() = default;
  Convolution(const Scope& scope, int64_t in, int64_t out, int64_t stride, const Init& init)
      : stride_(stride),
        weight_(scope.parameter("weight", {out, in, kKernel}, init)),
        bias_(scope.parameter("bias", {out}, Init::zeros())) {
    if (!weight_.requires_grad()) {
      matrix_ = as_matrix();
    }
  }

  /// rows [batch * length, in] -> GELU of [batch * ceil(length / stride), out].
  Tensor operator()(const Tensor& rows, int64_t batch, int64_t length) const {
    const int64_t steps = (length + stride_ - 1) / stride_;
    const Tensor padded =
        concat({rows, Tensor::zeros({1, rows.size(1)}, rows.dtype())}, 0);  // row N is padding
    std::vector<Tensor> parts;
    for (int64_t tap = 0; tap < kKernel; ++tap) {
      std::vector<int64_t> index;
      index.reserve(static_cast<size_t>(batch * steps));
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t step = 0; step < steps; ++step) {
          const int64_t frame = step * stride_ + tap - 1;
          index.push_back(frame < 0 || frame >= length ? rows.size(0) : b * length + frame);
        }
      }
      parts.push_back(index_rows(padded, Tensor::from(index, {batch * steps})));
    }
    return linear(concat(parts, 1), matrix_.defined() ? matrix_ : as_matrix(), bias_,
                  {.activation = Activation::gelu});
  }

 private:
  static constexpr int64_t kKernel = 3;

  /// [out, in, 3] as [out, 3 * in].
  Tensor as_matrix() const {
    return reshape(contiguous(transpose(weight_, 1, 2)),
                   {weight_.size(0), kKernel * weight_.size(1)});
  }

  int64_t stride_ = 1;
  Tensor weight_, bias_, matrix_;
};

StackSizes sizes_of(const Json& config, const std::string& side) {
  StackSizes sizes = stack_sizes(config, side);
  sizes.activation = activation_of(config, "activation_function", "gelu");
  sizes.dropout = rate_or(config, "dropout", 0.0);
  sizes.eps = 1e-5;
  sizes.init = Init::normal(positive_or(config, "init_std", 0.02));
  sizes.pre_norm = true;
  sizes.key_bias = false;
  return sizes;
}

/// Whisper: two convolutions over a log-mel spectrogram and fixed sinusoids before a pre-norm
/// encoder; a pre-norm decoder with learned positions and a tied LM head.
class Whisper final : public EncoderDecoder {
 public:
  Whisper(const Json& config, const Scope& root)
      : encoder_sizes_(sizes_of(config, "encoder")),
        mels_(size_or(config, "num_mel_bins", 80)),
        positions_(size_or(config, "max_source_positions", 1500)),
        context_length_(size_or(config, "max_target_positions", 448)) {
    const bool writes = named_head<bool>(config, {{"WhisperForConditionalGeneration", true},
                                                  {"WhisperModel", false}})
                            .value_or(true);
    const StackSizes decoder = sizes_of(config, "decoder");
    const Init init = *decoder.init;
    hidden_size_ = decoder.width;
    target_.vocabulary = size_of(config, "vocab_size");
    const int64_t last = target_.vocabulary - 1;
    set_target(config, decoder, std::min<int64_t>(50256, last), std::min<int64_t>(50257, last));
    check_size(config, root,
               static_cast<double>(target_.vocabulary + positions_ + 3 * (mels_ + hidden_size_)) *
                       static_cast<double>(hidden_size_) +
                   stack_parameters(encoder_sizes_, false) + stack_parameters(decoder, true));
    root.allow_prefix("model.");
    const Scope base = writes ? root / "model" : root;
    make_encoder(base / "encoder", init);
    TokenStack::Options options;
    options.sizes = decoder;
    options.context = context_length_;
    options.learned_positions = options.final_norm = true;
    options.causal = options.cross = true;
    options.hidden_name = "decoder_hidden_states";
    const Embedding words(base / "decoder" / "embed_tokens", target_.vocabulary, hidden_size_, init,
                          target_.padding);
    decoder_ = TokenStack(base / "decoder", words, options);
    if (writes) {
      head_ = lm_head(config, root / "proj_out", words, {}, init);
    }
  }

  ModelKind kind() const override { return ModelKind::speech_decoder; }
  int64_t context_length() const override { return context_length_; }
  int64_t num_layers() const override { return encoder_sizes_.layers; }
  int64_t num_heads() const override { return target_.heads; }

 protected:
  TokenRows read_source(const ModelInput& input, bool) const override {
    check_inputs(input, {.decoder = true}, "Whisper");
    check(!input.input_ids.defined(), "forward", "Whisper takes no input_ids");
    const Tensor& features = input.input_features;
    check(features.defined(), "forward", "input_features is missing");
    check(features.rank() == 3 && is_floating(features.dtype()) && features.size(1) == mels_ &&
              features.size(2) == kStride * positions_,
          "forward", "input_features must be floating [batch, {}, {}], not {} {}", mels_,
          kStride * positions_, name_of(features.dtype()), features.shape());
    return token_rows(Tensor::zeros({features.size(0), positions_}, DType::i64), {}, 1, false,
                      "input_features");
  }

  Tensor run_encoder(const TokenRows& source, const ModelInput& input, Pass& pass) const override {
    const int64_t frames = kStride * positions_;
    Tensor rows = reshape(transpose(cast(input.input_features, DType::f32), 1, 2).contiguous(),
                          {source.batch * frames, mels_});
    rows = second_(first_(rows, source.batch, frames), source.batch, frames);
    rows = add(rows, observe("hook_pos_embed", embedding(table_, source.positions)));
    rows = pass.dropout(rows, encoder_sizes_.dropout);
    return run_stack(blocks_, norm_, rows, pass, gradient_checkpointing_, &source,
                     "encoder_hidden_states");
  }

  Tensor run_decoder(const Tensor& ids, const Tensor& positions, Pass& pass,
                     const TokenRows* tokens) const override {
    return decoder_(ids, positions, pass, gradient_checkpointing_, tokens);
  }

 private:
  static constexpr int64_t kStride = 2;  // of the second convolution

  void make_encoder(const Scope& scope, const Init& init) {
    first_ = Convolution(scope / "conv1", mels_, hidden_size_, 1, init);
    second_ = Convolution(scope / "conv2", hidden_size_, hidden_size_, kStride, init);
    table_ =
        (scope / "embed_positions").buffer("weight", {positions_, hidden_size_}, Init::zeros());
    if (scope.is_fresh()) {
      const Tensor sinusoids =
          sinusoidal_positions(positions_, hidden_size_, SinusoidLayout::tensor2tensor);
      std::copy_n(sinusoids.data<float>(), sinusoids.numel(), table_.data<float>());
    }
    blocks_ = stack_blocks(scope, encoder_sizes_, false, false);
    norm_ = Norm(scope / "layer_norm", hidden_size_, encoder_sizes_.eps);
  }

  StackSizes encoder_sizes_;
  int64_t mels_, positions_, context_length_;
  Convolution first_, second_;
  Tensor table_;  ///< fixed positions, [max_source_positions, hidden_size]
  std::vector<Block> blocks_;
  Norm norm_;
  TokenStack decoder_;
};

}  // namespace

ModelSpec whisper_spec() {
  ModelSpec spec;
  spec.model_type = "whisper";
  spec.kind = ModelKind::speech_decoder;
  spec.heads = {{"WhisperForConditionalGeneration", "automatic-speech-recognition", "model."},
                {"WhisperModel", "", ""}};
  spec.ties = {
      .prefix = "model.", .embedding = "decoder.embed_tokens.weight", .lm_head = "proj_out.weight"};
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Whisper>(config, scope);
  };
  return spec;
}

}  // namespace heed
