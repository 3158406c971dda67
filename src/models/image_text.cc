#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "models/image_text_towers.h"

namespace heed {
namespace {

double block_parameters(const EncoderConfig& c) {
  return static_cast<double>(c.num_layers) * static_cast<double>(c.hidden_size) *
         (4.0 * static_cast<double>(c.hidden_size) +
          2.0 * static_cast<double>(c.intermediate_size));
}

Tensor unit_rows(const Tensor& x) { return div(x, sqrt(sum(mul(x, x), -1, true))); }

/// The mean loss of image i belonging to text i. Softmax: over the texts of each image and over
/// the images of each text. Sigmoid: every pair is right or wrong by itself.
Tensor matching_loss(const Tensor& logits_per_text, bool sigmoid) {
  const int64_t count = logits_per_text.size(0);
  check(count == logits_per_text.size(1), "loss", "{} texts for {} images; one each is wanted",
        count, logits_per_text.size(1));
  if (sigmoid) {
    Tensor right = Tensor::zeros({count, count}, logits_per_text.dtype());
    for (int64_t i = 0; i < count; ++i) {
      right.data<float>()[i * count + i] = 1.0F;
    }
    return mul(binary_cross_entropy(logits_per_text, right), static_cast<double>(count));
  }
  std::vector<int64_t> own(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    own[static_cast<size_t>(i)] = i;
  }
  const Tensor targets = Tensor::from(own, {count});
  return mul(add(cross_entropy(logits_per_text, targets, {}),
                 cross_entropy(contiguous(transpose(logits_per_text)), targets, {})),
             0.5);
}

class ImageText final : public SizedModel {
 public:
  ImageText(const Json& config, const Scope& root, const ImageTextConfig& family,
            ImageTextPart part)
      : c_(family), head_(head_of(config, root, part)) {
    const EncoderConfig& text = c_.text.layers;
    const EncoderConfig& image = c_.image.layers;
    const bool reads = head_ == Head::match || part == ImageTextPart::text;
    const EncoderConfig& main = reads ? text : image;
    hidden_size_ = main.hidden_size;
    num_layers_ = main.num_layers;
    num_heads_ = main.num_heads;
    vocab_size_ = reads ? text.vocab_size : 0;
    check_size(config, root,
               (reads ? static_cast<double>(text.vocab_size + text.context_length) *
                                static_cast<double>(text.hidden_size) +
                            block_parameters(text)
                      : 0.0) +
                   (part == ImageTextPart::text ? 0.0 : block_parameters(image)));
    const bool alone = head_ == Head::none;  // a tower without anything behind it
    if (reads) {
      root.allow_prefix("text_model.");
      text_ = TextTower(alone ? root : root / "text_model", c_.text);
    }
    if (part != ImageTextPart::text) {
      root.allow_prefix("vision_model.");
      image_ = ImageTower(config, alone ? root : root / "vision_model", c_.image);
    }
    context_length_ = reads ? text.context_length : image_->length();
    make_head(config, root);
  }

  ModelKind kind() const override {
    return head_ == Head::match ? ModelKind::image_text
           : text_              ? ModelKind::encoder
                                : ModelKind::vision;
  }

  ModelOutput do_forward(const ModelInput& input) const override {
    check_inputs(input, {.pixels = image_.has_value()}, model_type());
    check(text_ || !input.input_ids.defined(), "forward", "{} takes no input_ids", model_type());
    if (head_ == Head::match) {
      return matched(input);
    }
    ModelOutput output;
    if (text_) {
      const TokenRows tokens = text_->read(input, {}, model_type());
      const Tensor rows = text_->run(tokens, input, gradient_checkpointing_);
      output.last_hidden_state = tokens.to_batch(rows);
      const Tensor pooled = text_->pooled(rows, tokens, input);
      (text_projection_.defined() ? output.text_embeds : output.pooler_output) =
          text_projection_.defined() ? text_projection_(pooled) : pooled;
      return output;
    }
    const Tensor rows = image_->run(input, gradient_checkpointing_);
    if (head_ == Head::classify) {
      return sequence_results(image_->patch_mean(rows), classifier_, input, problem_);
    }
    output.last_hidden_state = rows;
    const Tensor pooled = image_->pooled(rows);
    (image_projection_.defined() ? output.image_embeds : output.pooler_output) =
        image_projection_.defined() ? image_projection_(pooled) : pooled;
    return output;
  }

  EncoderOutput encode(const ModelInput& input) const override {
    if (text_ && head_ != Head::match) {
      const TokenRows tokens = text_->read(input, {}, model_type());
      return {text_->run(tokens, input, gradient_checkpointing_), tokens.layout};
    }
    if (!image_ || head_ == Head::match) {
      return Model::encode(input);
    }
    const Tensor rows = image_->run(input, gradient_checkpointing_);
    return {reshape(rows, {rows.size(0) * rows.size(1), rows.size(2)}),
            Layout::equal(rows.size(0), rows.size(1))};
  }

 private:
  /// What stands behind the towers: a comparison, a projection, a classifier, or nothing.
  enum class Head { match, project, classify, none };

  Head head_of(const Json& config, const Scope& root, ImageTextPart part) const {
    const std::string& family = c_.family;
    if (part == ImageTextPart::both) {
      const auto named = named_head<Head>(
          config,
          {{family + "Model", Head::match}, {family + "ForImageClassification", Head::classify}});
      return named.value_or(root.has("classifier.weight") ? Head::classify : Head::match);
    }
    const std::string tower = family + (part == ImageTextPart::text ? "TextModel" : "VisionModel");
    std::vector<std::pair<std::string, Head>> known = {{tower, Head::none}};
    if (c_.projection_size > 0) {
      known.emplace_back(tower + "WithProjection", Head::project);
    }
    const char* projection =
        part == ImageTextPart::text ? "text_projection.weight" : "visual_projection.weight";
    return named_head<Head>(config, known)
        .value_or(root.has(projection) ? Head::project : Head::none);
  }

  void make_head(const Json& config, const Scope& root) {
    if (head_ == Head::classify) {
      problem_ = problem_type_of(config);
      classifier_ =
          make_classifier(config, root, hidden_size_, label_count(config), c_.image.layers.init);
    }
    const auto project = [&](const char* name, const EncoderConfig& tower) {
      return Linear(root / name, tower.hidden_size, c_.projection_size,
                    {.bias = false, .init = tower.init});
    };
    const bool projects =
        c_.projection_size > 0 && (head_ == Head::match || head_ == Head::project);
    if (projects && text_) {
      text_projection_ = project("text_projection", c_.text.layers);
    }
    if (projects && image_) {
      image_projection_ = project("visual_projection", c_.image.layers);
    }
    if (head_ == Head::match) {
      const Init start{Init::Kind::constant, c_.scale_start};
      scale_ = root.parameter("logit_scale", c_.sigmoid_loss ? Shape{1} : Shape{}, start);
      if (c_.sigmoid_loss) {
        constexpr double kBias = -10.0;  // most pairs are wrong
        bias_ = root.parameter("logit_bias", {1}, {Init::Kind::constant, kBias});
      }
    }
  }

  Tensor text_vectors(const ModelInput& input) const {
    const HookScope hook_scope("text_model");
    const TokenRows tokens = text_->read(input, {.pixels = true}, model_type());
    const Tensor pooled =
        text_->pooled(text_->run(tokens, input, gradient_checkpointing_), tokens, input);
    return unit_rows(text_projection_.defined() ? text_projection_(pooled) : pooled);
  }

  Tensor image_vectors(const ModelInput& input) const {
    const HookScope hook_scope("vision_model");
    const Tensor pooled = image_->pooled(image_->run(input, gradient_checkpointing_));
    return unit_rows(image_projection_.defined() ? image_projection_(pooled) : pooled);
  }

  /// Embeddings of the texts and the images that are there, and their logits where both are.
  ModelOutput matched(const ModelInput& input) const {
    check(input.input_ids.defined() || input.pixel_values.defined(), "forward",
          "{} takes input_ids, pixel_values or both", model_type());
    check(!input.labels.defined(), "forward",
          "{} takes no labels: text i belongs to image i of the batch", model_type());
    ModelOutput output;
    if (input.pixel_values.defined()) {
      output.image_embeds = image_vectors(input);
    }
    if (input.input_ids.defined()) {
      output.text_embeds = text_vectors(input);
    }
    if (output.image_embeds.defined() && output.text_embeds.defined()) {
      Tensor logits = mul(matmul(output.text_embeds, transpose(output.image_embeds)), exp(scale_));
      logits = bias_.defined() ? add(logits, bias_) : logits;
      output.logits_per_text = logits;
      output.logits_per_image = contiguous(transpose(logits));
    }
    if (input.want_loss) {
      check(output.logits_per_text.defined(), "loss",
            "the loss compares texts with images; both are wanted");
      output.loss = matching_loss(output.logits_per_text, c_.sigmoid_loss);
    }
    return output;
  }

  ImageTextConfig c_;
  Head head_;
  std::optional<TextTower> text_;
  std::optional<ImageTower> image_;
  Linear text_projection_, image_projection_, classifier_;
  ProblemType problem_ = ProblemType::unspecified;
  Tensor scale_, bias_;
};

}  // namespace

EncoderConfig tower_layers(const Json& config, const std::string& family,
                           const TowerDefaults& defaults) {
  constexpr int64_t kLayers = 12;
  EncoderConfig c;
  c.family = family;
  c.hidden_size = size_or(config, "hidden_size", defaults.hidden_size);
  c.num_layers = config.integer_or("num_hidden_layers", kLayers, 1, 4096);
  c.num_heads = size_or(config, "num_attention_heads", defaults.num_heads);
  head_dim(config, "hidden_size", c.hidden_size, "num_attention_heads", c.num_heads);
  c.intermediate_size = size_or(config, "intermediate_size", defaults.intermediate_size);
  c.norm.eps = positive_or(config, "layer_norm_eps", defaults.eps);
  c.pre_norm = true;
  c.activation = activation_of(config, "hidden_act", defaults.activation);
  c.attention_dropout = rate_or(config, "attention_dropout", 0.0);
  c.init = Init::normal(positive_or(config, "initializer_range", 0.02));
  c.names.query = "self_attn.q_proj";
  c.names.key = "self_attn.k_proj";
  c.names.value = "self_attn.v_proj";
  c.names.output = "self_attn.out_proj";
  c.names.attention_norm = "layer_norm1";
  c.names.mlp_norm = "layer_norm2";
  c.names.up = "mlp.fc1";
  c.names.down = "mlp.fc2";
  return c;
}

std::unique_ptr<Model> make_image_text(const Json& config, const Scope& root,
                                       const ImageTextConfig& family, ImageTextPart part) {
  return std::make_unique<ImageText>(config, root, family, part);
}

ModelSpec image_text_spec(const std::string& model_type, const std::string& family,
                          ImageTextPart part, const ImageTextReader& read) {
  ModelSpec spec;
  spec.model_type = model_type;
  if (part == ImageTextPart::both) {
    spec.kind = ModelKind::image_text;
    spec.heads = {{family + "ForImageClassification", "image-classification", "classifier."},
                  {family + "Model", "zero-shot-image-classification", ""}};
  } else {
    const bool text = part == ImageTextPart::text;
    spec.kind = text ? ModelKind::encoder : ModelKind::vision;
    const std::string tower = family + (text ? "TextModel" : "VisionModel");
    spec.heads = {{tower + "WithProjection", "", "_projection."}, {tower, "", ""}};
  }
  spec.make = [read, part](const Json& config, const Scope& scope) {
    return make_image_text(config, scope, read(config, part), part);
  };
  return spec;
}

}  // namespace heed
