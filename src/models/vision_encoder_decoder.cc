#include "base/check.h"
#include "models/common.h"
#include "models/cross_decoder.h"
#include "models/fresh_config.h"
#include "models/registry.h"
#include "models/task_heads.h"

namespace heed {
namespace {

/// An image encoder and a text decoder that looks at it, made by their own configurations: ViT and
/// GPT-2 for captions.
class VisionEncoderDecoder final : public Model {
 public:
  VisionEncoderDecoder(const Json& config, const Scope& root)
      : encoder_(make_model(part(config, "encoder", "ViTForImageClassification", "ViTModel"),
                            root / "encoder")),
        decoder_(
            make_model(part(config, "decoder", "GPT2Model", "GPT2LMHeadModel"), root / "decoder")),
        cross_(dynamic_cast<const CrossDecoder*>(decoder_.get())) {
    check_data(encoder_->kind() == ModelKind::vision, config.file(),
               "encoder.model_type '{}' is no image encoder; use vit",
               config.at("encoder").string("model_type"));
    check_data(cross_ != nullptr && cross_->looks_at_memory(), config.file(),
               "decoder.model_type '{}' has no cross-attention; use gpt2 with add_cross_attention",
               config.at("decoder").string("model_type"));
    if (encoder_->hidden_size() != decoder_->hidden_size()) {
      projection_ =
          Linear(root / "enc_to_dec_proj", encoder_->hidden_size(), decoder_->hidden_size());
    }
    start_ = token(config, "decoder_start_token_id");
    padding_ = token(config, "pad_token_id");
  }

  ModelKind kind() const override { return ModelKind::vision_decoder; }
  int64_t vocab_size() const override { return decoder_->vocab_size(); }
  int64_t context_length() const override { return decoder_->context_length(); }
  int64_t hidden_size() const override { return decoder_->hidden_size(); }
  int64_t num_layers() const override { return decoder_->num_layers(); }
  int64_t num_heads() const override { return decoder_->num_heads(); }
  void set_gradient_checkpointing(bool on) override {
    encoder_->set_gradient_checkpointing(on);
    decoder_->set_gradient_checkpointing(on);
  }

  ModelOutput do_forward(const ModelInput& input) const override {
    check(!input.input_ids.defined(), "forward", "a vision-encoder-decoder takes no input_ids");
    check_inputs(input, {.decoder = true, .pixels = true}, "a vision-encoder-decoder");
    const EncoderOutput encoded = image(input);
    ModelInput decoding = input;
    if (!input.decoder_input_ids.defined()) {
      check(input.labels.defined(), "forward", "decoder_input_ids are missing");
      decoding.decoder_input_ids = shifted_right(input.labels);
    }
    ModelOutput output = cross_->forward_with(decoding, projected(encoded));
    output.encoder_last_hidden_state = reshape(
        encoded.rows, {encoded.layout.batch, encoded.layout.length, encoder_->hidden_size()});
    return output;
  }

  EncoderOutput encode(const ModelInput& input) const override { return projected(image(input)); }
  void set_kv_type(DType type) override {
    Model::set_kv_type(type);
    decoder_->set_kv_type(type);
  }
  SequenceCache new_cache(int64_t capacity) const override { return decoder_->new_cache(capacity); }
  Tensor decode(const Tensor& ids, Pass& pass) const override {
    const HookScope hook_scope("decoder");
    return decoder_->decode(ids, pass);
  }
  Tensor do_logits(const Tensor& rows) const override { return decoder_->logits(rows); }

 private:
  /// A half's configuration. It may still name the model that the half was taken from; here the
  /// encoder is always without a head, the decoder with one.
  static Json part(const Json& config, const char* name, const char* taken_from, const char* here) {
    Json half = config.at(name);
    if (architecture(half) != taken_from) {
      return half;
    }
    return JsonBuilder(half)
        .set("architectures", std::vector<std::string>{here})
        .build(config.file());
  }

  int64_t token(const Json& config, std::string_view key) const {
    return config.integer_or(key, -1, -1, decoder_->vocab_size() - 1);
  }

  EncoderOutput image(const ModelInput& input) const {
    const HookScope hook_scope("encoder");
    return encoder_->encode(input);
  }

  EncoderOutput projected(const EncoderOutput& memory) const {
    return projection_.defined() ? EncoderOutput{projection_(memory.rows), memory.layout} : memory;
  }

  /// The labels moved right by one behind the start token; what is ignored becomes padding.
  Tensor shifted_right(const Tensor& labels_in) const {
    check(labels_in.rank() == 2, "forward", "labels {} are not [batch, length]", labels_in.shape());
    check(start_ >= 0 && padding_ >= 0, "forward",
          "config.json has no decoder_start_token_id or no pad_token_id: give decoder_input_ids");
    const Tensor labels = labels_in.to(DType::i64).contiguous();
    Tensor shifted = Tensor::empty(labels.shape(), DType::i64);
    const int64_t length = labels.size(1);
    for (int64_t i = 0; i < labels.numel(); ++i) {
      const int64_t before = i % length == 0 ? start_ : labels.data<int64_t>()[i - 1];
      shifted.data<int64_t>()[i] = before == -100 ? padding_ : before;
    }
    return shifted;
  }

  std::unique_ptr<Model> encoder_, decoder_;
  const CrossDecoder* cross_ = nullptr;
  Linear projection_;
  int64_t start_ = -1, padding_ = -1;
};

}  // namespace

ModelSpec vision_encoder_decoder_spec() {
  ModelSpec spec;
  spec.model_type = "vision-encoder-decoder";
  spec.kind = ModelKind::vision_decoder;
  spec.heads = {{"VisionEncoderDecoderModel", "image-to-text", ""}};
  spec.train_tasks = {"caption"};
  spec.fresh_config = [](const FreshSizes& sizes) {
    JsonBuilder decoder = find_model_spec("gpt2")->fresh_config(sizes);
    decoder.erase("architectures").set("add_cross_attention", true).set("is_decoder", true);
    // By Hugging Face's names, without classes.
    const JsonBuilder encoder =
        vit_fresh_config(sizes).set("architectures", std::vector<std::string>{"ViTModel"});
    return JsonBuilder()
        .set("model_type", "vision-encoder-decoder")
        .set("architectures", std::vector<std::string>{"VisionEncoderDecoderModel"})
        .set("is_encoder_decoder", true)
        .set("tie_word_embeddings", false)
        .set("encoder", encoder)
        .set("decoder", decoder);
  };
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<VisionEncoderDecoder>(config, scope);
  };
  return spec;
}

}  // namespace heed
