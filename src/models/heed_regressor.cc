#include <cmath>

#include "base/check.h"
#include "models/fresh_config.h"
#include "models/layer_stack.h"
#include "models/registry.h"
#include "models/task_heads.h"

namespace heed {
namespace {

/// heed-regressor: numbers to numbers. Linear input embeddings times sqrt(d) plus sinusoids, an
/// encoder and a causal decoder with a norm after each, a linear output; the loss is the mean
/// squared error. Numbers far from 0 … 1 are moved there and back by a mean and a scale of the
/// configuration, which no gradient changes.
class Regressor final : public Model {
 public:
  Regressor(const Json& config, const Scope& root)
      : encoder_sizes_(stack_sizes(config, "encoder")),
        decoder_sizes_(stack_sizes(config, "decoder")),
        context_length_(size_or(config, "max_position_embeddings", 512)),
        inputs_(size_or(config, "input_size", 1)),
        outputs_(size_or(config, "output_size", 1)),
        targets_(size_or(config, "decoder_input_size", outputs_)),
        input_{number_or(config, "input_mean", 0.0), positive_or(config, "input_scale", 1.0)},
        output_{number_or(config, "output_mean", 0.0), positive_or(config, "output_scale", 1.0)} {
    const int64_t width = encoder_sizes_.width;
    check_size(config, root,
               static_cast<double>(width) * static_cast<double>(inputs_ + targets_ + outputs_) +
                   stack_parameters(encoder_sizes_, false) +
                   stack_parameters(decoder_sizes_, true));
    auto project = [&](const Scope& scope, int64_t in, int64_t out) {
      return Linear(scope, in, out, {.init = glorot(in, out)});
    };
    encoder_input_ = project(root / "encoder" / "input", inputs_, width);
    decoder_input_ = project(root / "decoder" / "input", targets_, width);
    TokenStack::Options options;
    options.context = context_length_;
    options.scale = std::sqrt(static_cast<double>(width));
    options.final_norm = true;
    options.sizes = encoder_sizes_;
    options.hidden_name = "encoder_hidden_states";
    encoder_ = TokenStack(root / "encoder", {}, options);
    options.sizes = decoder_sizes_;
    options.hidden_name = "decoder_hidden_states";
    options.causal = options.cross = true;
    decoder_ = TokenStack(root / "decoder", {}, options);
    out_ = project(root / "out", width, outputs_);
  }

  ModelKind kind() const override { return ModelKind::regressor; }
  int64_t context_length() const override { return context_length_; }
  int64_t hidden_size() const override { return encoder_sizes_.width; }
  int64_t num_layers() const override { return encoder_sizes_.layers; }
  int64_t num_heads() const override { return encoder_sizes_.heads; }

  ModelOutput do_forward(const ModelInput& input) const override {
    const TokenRows source = read(input, input.skip_padding);
    const Tensor given = target_features(input);
    const TokenRows target = feature_places(given, input.decoder_attention_mask, targets_,
                                            input.skip_padding, "decoder_features");
    check_length(target.length, context_length_);
    check(source.batch == target.batch, "forward", "{} inputs and {} decoder inputs", source.batch,
          target.batch);
    const EncoderOutput memory = run_encoder(input, source);
    Pass pass = target.pass(input);
    pass.encoder_hidden_states = &memory.rows;
    pass.encoder_layout = &memory.layout;
    Tensor rows;
    {
      const HookScope hook_scope("decoder");
      rows = decoder_.run(decoder_input_(output_.to_unit(feature_rows(given, target))),
                          target.positions, pass, gradient_checkpointing_, &target);
    }
    rows = observe("hook_logits", output_.from_unit(out_(rows)));
    ModelOutput output;
    output.logits = target.to_batch(rows);
    output.encoder_last_hidden_state = source.to_batch(memory.rows);
    if (input.labels.defined()) {
      output.loss = loss(output.logits, input);
    }
    return output;
  }

  EncoderOutput encode(const ModelInput& input) const override {
    return run_encoder(input, read(input, true));
  }

 private:
  /// What turns numbers of the data into numbers about as large as 1, and back.
  struct Unit {
    double mean = 0.0, scale = 1.0;
    Tensor to_unit(const Tensor& x) const { return plain() ? x : mul(add(x, -mean), 1.0 / scale); }
    Tensor from_unit(const Tensor& x) const { return plain() ? x : add(mul(x, scale), mean); }
    bool plain() const { return mean == 0.0 && scale == 1.0; }
  };

  static double number_or(const Json& config, const char* key, double otherwise) {
    constexpr double kMost = 1e30;
    return config.number_or(key, otherwise, -kMost, kMost);
  }

  TokenRows read(const ModelInput& input, bool skip_padding) const {
    check(!input.input_ids.defined() && !input.decoder_input_ids.defined(), "forward",
          "heed-regressor takes features, not input_ids");
    check_inputs(input, {.decoder = true, .features = true}, "heed-regressor");
    TokenRows places =
        feature_places(input.features, input.attention_mask, inputs_, skip_padding, "features");
    check_length(places.length, context_length_);
    return places;
  }

  /// decoder_features, or the labels shifted right by one, starting with zeros.
  Tensor target_features(const ModelInput& input) const {
    if (input.decoder_features.defined()) {
      return input.decoder_features;
    }
    check(
        input.labels.defined() && input.labels.rank() == 3 && outputs_ == targets_, "forward",
        "decoder_features is missing, and there are no labels [batch, length, {}] to make it from",
        targets_);
    const Tensor labels = input.labels.to(DType::f32);
    const int64_t length = labels.size(1);
    return concat(
        {Tensor::zeros({labels.size(0), 1, labels.size(2)}), slice(labels, 1, 0, length - 1)}, 1);
  }

  EncoderOutput run_encoder(const ModelInput& input, const TokenRows& source) const {
    const HookScope hook_scope("encoder");
    const Pass pass = source.pass(input);
    return {encoder_.run(encoder_input_(input_.to_unit(feature_rows(input.features, source))),
                         source.positions, pass, gradient_checkpointing_, &source),
            source.layout};
  }

  /// Mean squared error over the positions that are not padding.
  Tensor loss(const Tensor& predictions, const ModelInput& input) const {
    const Tensor labels = input.labels.to(DType::f32);
    check(labels.shape() == predictions.shape(), "loss", "labels {} do not fit predictions {}",
          labels.shape(), predictions.shape());
    const int64_t batch = predictions.size(0);
    const int64_t length = predictions.size(1);
    const Tensor mask =
        padding_mask(input.decoder_attention_mask, batch, length, "decoder_attention_mask");
    if (!mask.defined()) {
      return mse(predictions, labels);
    }
    std::vector<int64_t> real;
    for (int64_t i = 0; i < batch * length; ++i) {
      if (mask.data<uint8_t>()[i] != 0) {
        real.push_back(i);
      }
    }
    check(!real.empty(), "loss", "decoder_attention_mask leaves no place");
    const Tensor index = Tensor::from(real, {static_cast<int64_t>(real.size())});
    auto pick = [&](const Tensor& x) {
      return index_rows(reshape(x, {batch * length, outputs_}), index);
    };
    return mse(pick(predictions), pick(labels));
  }

  StackSizes encoder_sizes_, decoder_sizes_;
  int64_t context_length_ = 0, inputs_ = 0, outputs_ = 0, targets_ = 0;
  Unit input_, output_;
  Linear encoder_input_, decoder_input_, out_;
  TokenStack encoder_, decoder_;
};

}  // namespace

ModelSpec heed_regressor_spec() {
  ModelSpec spec;
  spec.model_type = "heed-regressor";
  spec.kind = ModelKind::regressor;
  spec.train_tasks = {"regress"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    return stack_fresh_config("heed-regressor", sizes);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Regressor>(config, scope);
  };
  return spec;
}

}  // namespace heed
