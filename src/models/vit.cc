#include <cmath>

#include "base/check.h"
#include "models/common.h"
#include "models/fresh_config.h"
#include "models/patch_grid.h"
#include "models/registry.h"
#include "models/task_heads.h"

namespace heed {
namespace {

/// ViT: patches through one projection, a class token, learned positions, pre-LN blocks, a norm;
/// the classifier reads the class token.
class Vit final : public Model {
 public:
  Vit(const Json& config, const Scope& root) {
    hidden_size_ = size_of(config, "hidden_size");
    num_layers_ = layer_count(config, "num_hidden_layers");
    num_heads_ = size_of(config, "num_attention_heads");
    channels_ = size_or(config, "num_channels", 3);
    intermediate_size_ = size_of(config, "intermediate_size");
    patch_ = sides(config, "patch_size");
    const Grid image = sides(config, "image_size");
    check_data(image.height % patch_.height == 0 && image.width % patch_.width == 0, config.file(),
               "image_size {} x {} is no multiple of patch_size {} x {}", image.height, image.width,
               patch_.height, patch_.width);
    grid_ = {image.height / patch_.height, image.width / patch_.width};
    check_size(config, root,
               static_cast<double>(grid_.count()) * static_cast<double>(hidden_size_) +
                   static_cast<double>(patch_.count()) * static_cast<double>(channels_) *
                       static_cast<double>(hidden_size_) +
                   static_cast<double>(num_layers_) * static_cast<double>(hidden_size_) *
                       static_cast<double>(4 * hidden_size_ + 2 * intermediate_size_));
    eps_ = positive_or(config, "layer_norm_eps", 1e-12);
    init_ = Init::normal(positive_or(config, "initializer_range", 0.02));
    dropout_ = rate_or(config, "hidden_dropout_prob", 0.0);
    root.allow_prefix("vit.");
    const std::string head = architecture(config);
    classifies_ = head.empty() ? root.is_fresh() || root.has("classifier.weight")
                               : head == "ViTForImageClassification";
    const Scope base = classifies_ ? root / "vit" : root;
    const Scope embeddings = base / "embeddings";
    cls_ = embeddings.parameter("cls_token", {1, 1, hidden_size_}, init_);
    positions_ =
        embeddings.parameter("position_embeddings", {1, 1 + grid_.count(), hidden_size_}, init_);
    const Scope projection = embeddings / "patch_embeddings" / "projection";
    patch_weight_ = projection.parameter(
        "weight", {hidden_size_, channels_, patch_.height, patch_.width}, init_);
    patch_bias_ = projection.parameter("bias", {hidden_size_}, Init::zeros());
    for (int64_t i = 0; i < num_layers_; ++i) {
      blocks_.push_back(make_block(config, base / "encoder" / "layer" / i));
    }
    norm_ = Norm(base / "layernorm", hidden_size_, eps_);
    if (base.has("pooler.dense.weight")) {
      pooler_ = Linear(base / "pooler" / "dense", hidden_size_,
                       size_or(config, "pooler_output_size", hidden_size_));
      pooler_activation_ = activation_of(config, "pooler_act", "tanh");
    }
    if (classifies_) {
      problem_ = problem_type_of(config);
      classifier_ = make_classifier(config, root, hidden_size_, label_count(config), init_);
    }
  }

  ModelKind kind() const override { return ModelKind::vision; }
  int64_t context_length() const override { return 1 + grid_.count(); }
  int64_t hidden_size() const override { return hidden_size_; }
  int64_t num_layers() const override { return num_layers_; }
  int64_t num_heads() const override { return num_heads_; }

  ModelOutput do_forward(const ModelInput& input) const override {
    check(!input.input_ids.defined(), "forward", "ViT takes no input_ids");
    check_inputs(input, {.pixels = true}, "ViT");
    TokenRows tokens;
    const Tensor rows = run(input, tokens);
    const Tensor first = first_rows(rows, tokens.layout);
    if (classifies_) {
      return sequence_results(first, classifier_, input, problem_);
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    if (pooler_.defined()) {
      output.pooler_output = pooler_(first, pooler_activation_);
    }
    return output;
  }

  EncoderOutput encode(const ModelInput& input) const override {
    TokenRows tokens;
    Tensor rows = run(input, tokens);
    return {std::move(rows), tokens.layout};
  }

 private:
  Block make_block(const Json& config, const Scope& scope) const {
    MultiHeadAttention::Options options;
    options.num_heads = num_heads_;
    options.head_dim =
        head_dim(config, "hidden_size", hidden_size_, "num_attention_heads", num_heads_);
    options.dropout = rate_or(config, "attention_probs_dropout_prob", 0.0);
    const bool bias = config.boolean_or("qkv_bias", true);
    const Scope attention = scope / "attention" / "attention";
    auto project = [&](const char* name) {
      return Linear(attention / name, hidden_size_, hidden_size_, {.bias = bias, .init = init_});
    };
    auto dense = [&](const Scope& at, int64_t in, int64_t out) {
      return Linear(at / "dense", in, out, {.init = init_});
    };
    Block::Parts parts;
    parts.pre_norm = true;
    parts.dropout = dropout_;
    parts.attention_norm = Norm(scope / "layernorm_before", hidden_size_, eps_);
    parts.attention = MultiHeadAttention(
        project("query"), project("key"), project("value"),
        dense(scope / "attention" / "output", hidden_size_, hidden_size_), options);
    parts.feed_forward_norm = Norm(scope / "layernorm_after", hidden_size_, eps_);
    parts.feed_forward =
        FeedForward(dense(scope / "intermediate", hidden_size_, intermediate_size_),
                    dense(scope / "output", intermediate_size_, hidden_size_),
                    activation_of(config, "hidden_act", "gelu"));
    return Block(std::move(parts));
  }

  /// Positions of the class token and of a grid of patches, [1 + count, width].
  Tensor positions_for(Grid grid) const {
    Tensor all = reshape(positions_, {1 + grid_.count(), hidden_size_});
    if (grid == grid_) {
      return all;
    }
    return concat({slice(all, 0, 0, 1),
                   matmul(resize_matrix(grid_, grid), slice(all, 0, 1, 1 + grid_.count()))},
                  0);
  }

  /// Hidden rows after the final norm. As in Hugging Face, the last hidden state is before it.
  Tensor run(const ModelInput& input, TokenRows& tokens) const {
    const Tensor& pixels = input.pixel_values;
    check(pixels.defined(), "forward", "pixel_values is missing");
    check(pixels.rank() == 4 && is_floating(pixels.dtype()) && pixels.size(1) == channels_ &&
              pixels.numel() > 0,
          "forward", "pixel_values must be floating [batch, {}, height, width], not {} {}",
          channels_, name_of(pixels.dtype()), pixels.shape());
    check(pixels.size(2) % patch_.height == 0 && pixels.size(3) % patch_.width == 0, "forward",
          "pixel_values {} x {} is no multiple of the patches, {} x {}", pixels.size(2),
          pixels.size(3), patch_.height, patch_.width);
    const Grid grid{pixels.size(2) / patch_.height, pixels.size(3) / patch_.width};
    tokens.batch = pixels.size(0);
    tokens.length = 1 + grid.count();
    tokens.layout = Layout::equal(tokens.batch, tokens.length);
    const Tensor patches =
        linear(unfold_patches(pixels.to(DType::f32), patch_.height, patch_.width),
               reshape(patch_weight_, {hidden_size_, channels_ * patch_.count()}), patch_bias_);
    const Tensor cls = expand(cls_, {tokens.batch, 1, hidden_size_});
    Tensor rows = add(observe("hook_embed", concat({cls, patches}, 1)),
                      observe("hook_pos_embed", positions_for(grid)));
    rows =
        tokens.pass(input).dropout(reshape(rows, {tokens.layout.rows(), hidden_size_}), dropout_);
    rows = run_stack(blocks_, {}, rows, tokens.pass(input), gradient_checkpointing_, &tokens);
    return observe("ln_final.hook_normalized", norm_(rows));
  }

  int64_t hidden_size_ = 0, num_layers_ = 0, num_heads_ = 0, channels_ = 3, intermediate_size_ = 0;
  Grid patch_, grid_;
  bool classifies_ = false;
  ProblemType problem_ = ProblemType::unspecified;
  double eps_ = 1e-12, dropout_ = 0.0;
  Init init_;
  Tensor cls_, positions_, patch_weight_, patch_bias_;
  std::vector<Block> blocks_;
  Norm norm_;
  Activation pooler_activation_ = Activation::tanh;
  Linear pooler_, classifier_;
};

}  // namespace

namespace {

/// Side of a patch that gives at least seven by seven of them, the largest first.
int64_t patch_for(int64_t side) {
  constexpr int64_t kFewest = 7;
  for (const int64_t patch : {16, 8, 4, 2}) {
    if (side % patch == 0 && side / patch >= kFewest) {
      return patch;
    }
  }
  return 1;
}

}  // namespace

JsonBuilder vit_fresh_config(const FreshSizes& sizes) {
  return JsonBuilder()
      .set("model_type", "vit")
      .set("hidden_size", sizes.hidden_size)
      .set("num_hidden_layers", sizes.num_layers)
      .set("num_attention_heads", sizes.num_heads)
      .set("intermediate_size", sizes.intermediate_size)
      .set("hidden_dropout_prob", sizes.dropout)
      .set("attention_probs_dropout_prob", 0.0)
      .set("image_size", sizes.image_size)
      .set("patch_size", patch_for(sizes.image_size))
      .set("num_channels", sizes.num_channels);
}

ModelSpec vit_spec() {
  ModelSpec spec;
  spec.model_type = "vit";
  spec.kind = ModelKind::vision;
  spec.heads = {{"ViTForImageClassification", "image-classification", "classifier."},
                {"ViTModel", "", ""}};
  spec.train_tasks = {"image-classify"};
  spec.fresh_config = vit_fresh_config;
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Vit>(config, scope);
  };
  return spec;
}

}  // namespace heed
