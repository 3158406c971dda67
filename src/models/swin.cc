#include "base/check.h"
#include "base/language.h"
#include "heed/tensor.h"
#include "heed/transformer.h"
#include "models/patch_grid.h"
#include "models/registry.h"
#include "models/task_heads.h"

namespace heed {
namespace {

/// Swin: stages of layers that attend inside windows, every second layer's shifted by half a
/// window; between stages four neighbouring patches become one of twice the size. The classifier
/// reads the mean of the last stage.
class Swin final : public SizedModel {
 public:
  Swin(const Json& config, const Scope& root)
      : embed_dim_(size_of(config, "embed_dim")),
        channels_(size_or(config, "num_channels", 3)),
        patch_(sides(config, "patch_size")),
        dropout_(rate_or(config, "hidden_dropout_prob", 0.0)),
        init_(Init::normal(positive_or(config, "initializer_range", 0.02))) {
    const Grid image = sides(config, "image_size");
    grid_ = {image.height / patch_.height, image.width / patch_.width};
    check_data(grid_.count() > 0, config.file(), "image_size {} x {} is smaller than a patch",
               image.height, image.width);
    read_stages(config);
    check_size(config, root, parameter_estimate(config));
    root.allow_prefix("swin.");
    root.ignore({"*relative_position_index"}, say("indices, which heed computes itself"), true);
    const std::string head = architecture(config);
    if (!head.empty() && head != "SwinModel" && head != "SwinForImageClassification") {
      refuse_architecture(config, head, {"SwinModel", "SwinForImageClassification"});
    }
    classifies_ = head.empty() ? root.is_fresh() || root.has("classifier.weight")
                               : head == "SwinForImageClassification";
    const Scope base = classifies_ ? root / "swin" : root;
    make_embeddings(config, base / "embeddings");
    make_stages(config, base / "encoder" / "layers");
    norm_ = Norm(base / "layernorm", hidden_size_, positive_or(config, "layer_norm_eps", 1e-5));
    if (classifies_) {
      problem_ = problem_type_of(config);
      classifier_ = make_classifier(config, root, hidden_size_, label_count(config), init_);
    }
  }

  ModelKind kind() const override { return ModelKind::vision; }

  ModelOutput do_forward(const ModelInput& input) const override {
    check(!input.input_ids.defined(), "forward", "Swin takes no input_ids");
    check_inputs(input, {.pixels = true}, "Swin");
    const Tensor places = run(input);
    const Tensor pooled = mean(places, 1);
    if (classifies_) {
      return sequence_results(pooled, classifier_, input, problem_);
    }
    ModelOutput output;
    output.last_hidden_state = places;
    output.pooler_output = pooled;
    return output;
  }

  EncoderOutput encode(const ModelInput& input) const override {
    const Tensor places = run(input);
    return {reshape(places, {places.size(0) * places.size(1), hidden_size_}),
            Layout::equal(places.size(0), places.size(1))};
  }

 private:
  struct Stage {
    std::vector<SwinLayer> layers;
    Norm merge_norm;  ///< of four neighbours side by side; undefined in the last stage
    Linear merge;     ///< to twice the size
  };

  void read_stages(const Json& config) {
    constexpr int64_t kMost = 1024;
    depths_ = config.at("depths").integers(1, kMost);
    heads_ = config.at("num_heads").integers(1, kMost);
    constexpr size_t kMostStages = 16;
    check_data(!depths_.empty() && depths_.size() <= kMostStages && depths_.size() == heads_.size(),
               config.file(), "depths has {} stages and num_heads {}; 1 to {} of both are wanted",
               depths_.size(), heads_.size(), kMostStages);
    hidden_size_ = embed_dim_;
    for (size_t s = 0; s < depths_.size(); ++s) {
      hidden_size_ = s == 0 ? embed_dim_ : 2 * hidden_size_;
      head_dim(config, "embed_dim", hidden_size_, "num_heads", heads_[s]);
      num_layers_ += depths_[s];
    }
    num_heads_ = heads_.back();
    context_length_ = grid_.count();
  }

  double parameter_estimate(const Json& config) const {
    const double ratio = config.number_or("mlp_ratio", 4.0, 0.0, 1024.0);
    double count = static_cast<double>(patch_.count() * channels_ * embed_dim_);
    double size = static_cast<double>(embed_dim_);
    for (const int64_t depth : depths_) {
      count += static_cast<double>(depth) * size * size * (4.0 + 2.0 * ratio) + 8.0 * size * size;
      size *= 2.0;
    }
    return count;
  }

  void make_embeddings(const Json& config, const Scope& scope) {
    const Scope projection = scope / "patch_embeddings" / "projection";
    patch_weight_ =
        projection.parameter("weight", {embed_dim_, channels_, patch_.height, patch_.width}, init_);
    patch_bias_ = projection.parameter("bias", {embed_dim_}, Init::zeros());
    embedding_norm_ = Norm(scope / "norm", embed_dim_, kEps);
    scope.ignore({"*embeddings.mask_token"}, say("the mask token of pre-training"));
    if (config.boolean_or("use_absolute_embeddings", false)) {
      positions_ =
          scope.parameter("position_embeddings", {1, grid_.count(), embed_dim_}, Init::zeros());
    }
  }

  void make_stages(const Json& config, const Scope& scope) {
    SwinLayer::Options options;
    options.window = config.integer_or("window_size", 7, 1, 1024);
    options.mlp_ratio = config.number_or("mlp_ratio", 4.0, 0.0, 1024.0);
    options.eps = positive_or(config, "layer_norm_eps", 1e-5);
    options.dropout = rate_or(config, "attention_probs_dropout_prob", 0.0);
    options.hidden_dropout = dropout_;
    options.qkv_bias = config.boolean_or("qkv_bias", true);
    options.activation = activation_of(config, "hidden_act", "gelu");
    options.init = init_;

    int64_t size = embed_dim_;
    for (size_t s = 0; s < depths_.size(); ++s) {
      const Scope at = scope / static_cast<int64_t>(s);
      Stage stage;
      for (int64_t i = 0; i < depths_[s]; ++i) {
        options.num_heads = heads_[s];
        options.shift = i % 2 == 0 ? 0 : options.window / 2;
        stage.layers.emplace_back(at / "blocks" / i, size, options);
      }
      if (s + 1 < depths_.size()) {
        const Scope merge = at / "downsample";
        stage.merge_norm = Norm(merge / "norm", 4 * size, kEps);
        stage.merge =
            Linear(merge / "reduction", 4 * size, 2 * size, {.bias = false, .init = init_});
        size *= 2;
      }
      stages_.push_back(std::move(stage));
    }
  }

  /// Pixels [B, C, H, W] with zeros to the right and below, up to whole patches.
  Tensor padded(const Tensor& pixels) const {
    Tensor result = pixels;
    for (const auto& [axis, side] : {std::pair(2, patch_.height), std::pair(3, patch_.width)}) {
      const int64_t missing = (side - result.size(axis) % side) % side;
      if (missing > 0) {
        Shape shape = result.shape();
        shape[axis] = missing;
        result = concat({result, Tensor::zeros(shape, result.dtype())}, axis);
      }
    }
    return result;
  }

  /// [B, count, embed_dim] of a grid, whose size is returned.
  Tensor embed(const ModelInput& input, Grid& grid) const {
    const Tensor& given = input.pixel_values;
    check(given.defined(), "forward", "pixel_values is missing");
    check(given.rank() == 4 && is_floating(given.dtype()) && given.size(1) == channels_ &&
              given.numel() > 0,
          "forward", "pixel_values must be floating [batch, {}, height, width], not {} {}",
          channels_, name_of(given.dtype()), given.shape());
    const Tensor pixels = padded(given.to(DType::f32));
    grid = {pixels.size(2) / patch_.height, pixels.size(3) / patch_.width};
    Tensor places =
        linear(unfold_patches(pixels, patch_.height, patch_.width),
               reshape(patch_weight_, {embed_dim_, channels_ * patch_.count()}), patch_bias_);
    places = embedding_norm_(observe("hook_embed", places));
    if (positions_.defined()) {
      Tensor all = reshape(positions_, {grid_.count(), embed_dim_});
      all = grid == grid_ ? all : matmul(resize_matrix(grid_, grid), all);
      places = add(places, observe("hook_pos_embed", all));
    }
    return places;
  }

  /// Four neighbours as one place, [B, count / 4, 2 * size]; a missing row or column is zeros.
  static Tensor merged(const Tensor& places, Grid& grid, const Stage& stage) {
    const int64_t batch = places.size(0), size = places.size(2);
    Tensor x = reshape(places, {batch, grid.height, grid.width, size});
    if (grid.width % 2 != 0) {
      x = concat({x, Tensor::zeros({batch, grid.height, 1, size}, x.dtype())}, 2);
    }
    if (grid.height % 2 != 0) {
      x = concat({x, Tensor::zeros({batch, 1, x.size(2), size}, x.dtype())}, 1);
    }
    grid = {x.size(1) / 2, x.size(2) / 2};
    const Tensor cut = reshape(x, {batch, grid.height, 2, grid.width, 2, size});
    // Columns before rows: (0, 0), (1, 0), (0, 1), (1, 1).
    return stage.merge(stage.merge_norm(
        reshape(contiguous(permute(cut, {0, 1, 3, 4, 2, 5})), {batch, grid.count(), 4 * size})));
  }

  static void observe_places(int64_t index, const Tensor& places) {
    TokenRows tokens;
    tokens.batch = places.size(0);
    tokens.length = places.size(1);
    observe_hidden("hidden_states", index, tokens,
                   reshape(places, {tokens.batch * tokens.length, places.size(2)}));
  }

  /// [B, count, hidden_size] after the final norm.
  Tensor run(const ModelInput& input) const {
    Grid grid;
    Tensor places = embed(input, grid);
    Pass pass;
    pass.training = input.training;
    pass.first_example = input.first_example;
    pass.layout = Layout::equal(places.size(0), grid.count());
    places = reshape(pass.dropout(reshape(places, {pass.layout.rows(), embed_dim_}), dropout_),
                     places.shape());
    observe_places(0, places);
    int64_t number = 0;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const auto index = static_cast<int64_t>(s);
      const HookScope stage_scope("stages", index);
      for (const SwinLayer& layer : stages_[s].layers) {
        const HookScope hook_scope("blocks", number++);
        places = run_layer(layer, places, grid, pass);
      }
      if (stages_[s].merge.defined()) {
        places = merged(places, grid, stages_[s]);
      }
      observe_places(index + 1, places);
    }
    return observe("ln_final.hook_normalized", norm_(places));
  }

  Tensor run_layer(const SwinLayer& layer, const Tensor& places, Grid grid,
                   const Pass& pass) const {
    if (!gradient_checkpointing_ || !grad_enabled()) {
      return layer(places, grid.height, grid.width, pass);
    }
    return checkpoint(
        [&layer, grid, pass](const std::vector<Tensor>& again) {
          return layer(again[0], grid.height, grid.width, pass);
        },
        {places});
  }

  static constexpr double kEps = 1e-5;  // of the norms that layer_norm_eps does not reach

  int64_t embed_dim_, channels_;
  Grid patch_, grid_;
  double dropout_;
  Init init_;
  std::vector<int64_t> depths_, heads_;
  bool classifies_ = false;
  ProblemType problem_ = ProblemType::unspecified;
  Tensor patch_weight_, patch_bias_, positions_;
  Norm embedding_norm_, norm_;
  std::vector<Stage> stages_;
  Linear classifier_;
};

/// Two stages: half of the layers at full resolution, the others at half of it and twice the size.
JsonBuilder swin_fresh_config(const FreshSizes& sizes) {
  const bool two = sizes.num_layers > 1 && sizes.image_size % 4 == 0;
  const std::vector<int64_t> depths =
      two ? std::vector<int64_t>{sizes.num_layers - sizes.num_layers / 2, sizes.num_layers / 2}
          : std::vector<int64_t>{sizes.num_layers};
  const int64_t stages = static_cast<int64_t>(depths.size());
  const std::vector<int64_t> heads(depths.size(), sizes.num_heads);
  const int64_t patch = sizes.image_size % 2 == 0 ? 2 : 1;
  const int64_t embed = std::max<int64_t>(sizes.hidden_size / stages, 1);
  return JsonBuilder()
      .set("model_type", "swin")
      .set("image_size", sizes.image_size)
      .set("patch_size", patch)
      .set("num_channels", sizes.num_channels)
      .set("embed_dim", embed)
      .set("hidden_size", embed * stages)
      .set("depths", depths)
      .set("num_heads", heads)
      .set("window_size", std::min<int64_t>(7, sizes.image_size / patch / stages))
      .set("mlp_ratio",
           static_cast<double>(sizes.intermediate_size) / static_cast<double>(sizes.hidden_size))
      .set("hidden_dropout_prob", sizes.dropout)
      .set("drop_path_rate", 0.0);
}

}  // namespace

ModelSpec swin_spec() {
  ModelSpec spec;
  spec.model_type = "swin";
  spec.kind = ModelKind::vision;
  spec.heads = {{"SwinForImageClassification", "image-classification", "classifier."},
                {"SwinModel", "", ""}};
  spec.ties.prefix = "swin.";
  spec.train_tasks = {"image-classify"};
  spec.fresh_config = swin_fresh_config;
  spec.make = [](const Json& config, const Scope& scope) -> std::unique_ptr<Model> {
    return std::make_unique<Swin>(config, scope);
  };
  return spec;
}

}  // namespace heed
