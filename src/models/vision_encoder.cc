#include "models/vision_encoder.h"

#include "base/check.h"
#include "models/registry.h"

namespace heed {
namespace {

/// Distances between the places of a grid and a first token in front of them, as rows of BEiT's
/// table: i64 [T * T].
Tensor relative_rows(Grid grid) {
  const int64_t count = grid.count() + 1;
  const int64_t rows = (2 * grid.height - 1) * (2 * grid.width - 1);
  std::vector<int64_t> index(static_cast<size_t>(count * count));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      int64_t row = 0;
      if (i == 0 || j == 0) {
        row = rows + (i == 0 ? (j == 0 ? 2 : 0) : 1);
      } else {
        const int64_t down = (i - 1) / grid.width - (j - 1) / grid.width + grid.height - 1;
        const int64_t right = (i - 1) % grid.width - (j - 1) % grid.width + grid.width - 1;
        row = down * (2 * grid.width - 1) + right;
      }
      index[static_cast<size_t>(i * count + j)] = row;
    }
  }
  return Tensor::from(index, {count * count});
}

class VisionEncoder final : public SizedModel {
 public:
  VisionEncoder(const Json& config, const Scope& root, const VisionEncoderConfig& vision)
      : c_(vision) {
    const EncoderConfig& layers = c_.layers;
    hidden_size_ = layers.hidden_size;
    num_layers_ = layers.num_layers;
    num_heads_ = layers.num_heads;
    check_data(c_.image.height % c_.patch.height == 0 && c_.image.width % c_.patch.width == 0,
               config.file(), "image_size {} x {} is no multiple of patch_size {} x {}",
               c_.image.height, c_.image.width, c_.patch.height, c_.patch.width);
    grid_ = {c_.image.height / c_.patch.height, c_.image.width / c_.patch.width};
    context_length_ = grid_.count() + token_count() + c_.registers;
    const auto hidden = static_cast<double>(hidden_size_);
    check_size(config, root,
               hidden * (static_cast<double>(grid_.count()) +
                         static_cast<double>(c_.patch.count() * c_.channels) +
                         static_cast<double>(num_layers_) *
                             (4 * hidden + 2 * static_cast<double>(layers.intermediate_size))));
    root.allow_prefix(c_.base + ".");
    const std::string head = architecture(config);
    const std::string& family = layers.family;
    const char* output = c_.two_classifiers ? "cls_classifier.weight" : "classifier.weight";
    classifies_ = head.empty() ? root.is_fresh() || root.has(output) : head != family + "Model";
    if (!head.empty() && head != family + "Model" && head != family + "ForImageClassification" &&
        !c_.two_classifiers) {
      refuse_architecture(config, head, {family + "Model", family + "ForImageClassification"});
    }
    const Scope base = classifies_ ? root / c_.base : root;
    make_embeddings(base / "embeddings");
    make_blocks(base);
    make_head(config, root, base);
  }

  ModelKind kind() const override { return ModelKind::vision; }

  ModelOutput do_forward(const ModelInput& input) const override {
    check(!input.input_ids.defined(), "forward", "{} takes no input_ids", model_type());
    check_inputs(input, {.pixels = true}, model_type());
    TokenRows tokens;
    const Tensor rows = run(input, tokens);
    if (classifies_) {
      return classified(rows, tokens, input);
    }
    ModelOutput output;
    output.last_hidden_state = tokens.to_batch(rows);
    output.pooler_output = pooled(rows, tokens);
    return output;
  }

  EncoderOutput encode(const ModelInput& input) const override {
    TokenRows tokens;
    Tensor rows = run(input, tokens);
    return {std::move(rows), tokens.layout};
  }

 private:
  int64_t token_count() const { return static_cast<int64_t>(c_.tokens.size()); }

  void make_embeddings(const Scope& scope) {
    for (const std::string& name : c_.tokens) {
      tokens_.push_back(scope.parameter(name, {1, 1, hidden_size_}, c_.layers.init));
    }
    if (c_.mask_token) {
      const auto stored = scope.shape_of("mask_token");
      scope.parameter("mask_token", stored.value_or(Shape({1, hidden_size_})), Init::zeros());
    }
    if (c_.positions) {
      positions_ = scope.parameter(
          "position_embeddings", {1, grid_.count() + token_count(), hidden_size_}, c_.layers.init);
    }
    if (c_.registers > 0) {
      registers_ =
          scope.parameter("register_tokens", {1, c_.registers, hidden_size_}, Init::zeros());
    }
    const Scope projection = scope / "patch_embeddings" / "projection";
    patch_weight_ = projection.parameter(
        "weight", {hidden_size_, c_.channels, c_.patch.height, c_.patch.width}, c_.layers.init);
    patch_bias_ = projection.parameter("bias", {hidden_size_}, Init::zeros());
  }

  void make_blocks(const Scope& base) {
    const int64_t rows = (2 * grid_.height - 1) * (2 * grid_.width - 1) + 3;
    const auto table = [&](const Scope& at) {
      return (at / "relative_position_bias")
          .parameter("relative_position_bias_table", {rows, num_heads_}, Init::zeros());
    };
    for (int64_t i = 0; i < num_layers_; ++i) {
      const Scope scope = base / c_.layers.names.layers / i;
      blocks_.push_back(make_encoder_block(base, scope, c_.layers, i));
      if (c_.relative_bias) {
        bias_tables_.push_back(table(scope / "attention" / "attention"));
      }
    }
    if (c_.shared_relative_bias) {
      shared_table_ = table(base / "encoder");
    }
    if (!c_.final_norm.empty()) {
      norm_ = Norm(base / c_.final_norm, hidden_size_, c_.layers.norm);
    }
  }

  void make_head(const Json& config, const Scope& root, const Scope& base) {
    if (c_.mean_norm) {
      pooled_norm_ = Norm(base / "pooler" / "layernorm", hidden_size_, c_.layers.norm);
    }
    if (!c_.pooler.empty() && base.has(c_.pooler + ".weight")) {
      pooler_ = Linear(base / c_.pooler, hidden_size_,
                       size_or(config, "pooler_output_size", hidden_size_));
    }
    if (!classifies_) {
      return;
    }
    problem_ = problem_type_of(config);
    const int64_t labels = label_count(config);
    const int64_t width = c_.classifier_reads_mean ? 2 * hidden_size_ : hidden_size_;
    if (c_.two_classifiers) {
      classifier_ = Linear(root / "cls_classifier", width, labels, {.init = c_.layers.init});
      distilled_ =
          Linear(root / "distillation_classifier", width, labels, {.init = c_.layers.init});
    } else {
      classifier_ = make_classifier(config, root, width, labels, c_.layers.init);
    }
  }

  /// Rows of one place of all sequences, [B, hidden_size].
  Tensor at_place(const Tensor& rows, const TokenRows& tokens, int64_t place) const {
    return contiguous(select(tokens.to_batch(rows), 1, place));
  }

  Tensor patch_mean(const Tensor& rows, const TokenRows& tokens) const {
    return mean(slice(tokens.to_batch(rows), 1, token_count() + c_.registers, tokens.length), 1);
  }

  Tensor pooled(const Tensor& rows, const TokenRows& tokens) const {
    if (c_.mean_norm) {
      return observe("ln_pooled.hook_normalized",
                     pooled_norm_(observe("hook_pooled", patch_mean(rows, tokens))));
    }
    const Tensor first = at_place(rows, tokens, 0);
    return pooler_.defined()    ? pooler_(first, c_.pooler_activation)
           : c_.first_is_pooled ? first
                                : Tensor();
  }

  ModelOutput classified(const Tensor& rows, const TokenRows& tokens,
                         const ModelInput& input) const {
    if (c_.two_classifiers) {
      check(!input.labels.defined(), "forward",
            "a model that was distilled is for inference only; it has no loss");
      ModelOutput output;
      output.logits = mul(
          add(classifier_(at_place(rows, tokens, 0)), distilled_(at_place(rows, tokens, 1))), 0.5);
      return output;
    }
    Tensor read = c_.mean_norm ? pooled(rows, tokens) : at_place(rows, tokens, 0);
    if (c_.classifier_reads_mean) {
      read = concat({read, patch_mean(rows, tokens)}, 1);
    }
    return sequence_results(read, classifier_, input, problem_);
  }

  Tensor embed(const ModelInput& input, TokenRows& tokens) const {
    const Tensor& pixels = input.pixel_values;
    check(pixels.defined(), "forward", "pixel_values is missing");
    check(pixels.rank() == 4 && is_floating(pixels.dtype()) && pixels.size(1) == c_.channels &&
              pixels.numel() > 0,
          "forward", "pixel_values must be floating [batch, {}, height, width], not {} {}",
          c_.channels, name_of(pixels.dtype()), pixels.shape());
    check(pixels.size(2) % c_.patch.height == 0 && pixels.size(3) % c_.patch.width == 0, "forward",
          "pixel_values {} x {} is no multiple of the patches, {} x {}", pixels.size(2),
          pixels.size(3), c_.patch.height, c_.patch.width);
    const Grid grid{pixels.size(2) / c_.patch.height, pixels.size(3) / c_.patch.width};
    // The family with registers resizes its positions in another way.
    const bool fixed = !bias_tables_.empty() || shared_table_.defined() || registers_.defined();
    check(!fixed || grid == grid_, "forward", "{} takes images of {} x {}", model_type(),
          c_.image.height, c_.image.width);
    tokens.batch = pixels.size(0);
    tokens.length = token_count() + c_.registers + grid.count();
    tokens.layout = Layout::equal(tokens.batch, tokens.length);
    std::vector<Tensor> parts;
    for (const Tensor& token : tokens_) {
      parts.push_back(expand(token, {tokens.batch, 1, hidden_size_}));
    }
    parts.push_back(linear(unfold_patches(pixels.to(DType::f32), c_.patch.height, c_.patch.width),
                           reshape(patch_weight_, {hidden_size_, c_.channels * c_.patch.count()}),
                           patch_bias_));
    Tensor rows = observe("hook_embed", concat(parts, 1));
    if (positions_.defined()) {
      Tensor all = reshape(positions_, {positions_.size(1), hidden_size_});
      if (!(grid == grid_)) {
        all = concat(
            {slice(all, 0, 0, token_count()),
             matmul(resize_matrix(grid_, grid), slice(all, 0, token_count(), positions_.size(1)))},
            0);
      }
      rows = add(rows, observe("hook_pos_embed", all));
    }
    if (registers_.defined()) {
      rows = concat({slice(rows, 1, 0, token_count()),
                     expand(registers_, {tokens.batch, c_.registers, hidden_size_}),
                     slice(rows, 1, token_count(), rows.size(1))},
                    1);
    }
    return reshape(rows, {tokens.layout.rows(), hidden_size_});
  }

  Tensor bias_of(const Tensor& table) const {
    const int64_t count = grid_.count() + 1;
    return unsqueeze(
        transpose(reshape(index_rows(table, relative_rows(grid_)), {count * count, num_heads_}), 0,
                  1),
        0);
  }

  /// Hidden rows after the final norm.
  Tensor run(const ModelInput& input, TokenRows& tokens) const {
    Tensor rows = embed(input, tokens);
    Pass pass = tokens.pass(input);
    rows = pass.dropout(rows, c_.layers.dropout);
    if (bias_tables_.empty() && !shared_table_.defined()) {
      rows = run_stack(blocks_, c_.last_hidden_is_normed ? norm_ : Norm(), rows, pass,
                       gradient_checkpointing_, &tokens);
    } else {
      rows = run_biased(rows, pass, tokens);
    }
    return norm_.defined() && !c_.last_hidden_is_normed
               ? observe("ln_final.hook_normalized", norm_(rows))
               : rows;
  }

  /// Blocks with a bias of relative positions, each with its own or all with one.
  Tensor run_biased(Tensor rows, Pass& pass, const TokenRows& tokens) const {
    const int64_t count = grid_.count() + 1;
    const auto shaped = [&](const Tensor& table) {
      return reshape(bias_of(table), {1, num_heads_, count, count});
    };
    observe_hidden("hidden_states", 0, tokens, rows);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto layer = static_cast<int64_t>(i);
      const HookScope hook_scope("blocks", layer);
      Tensor bias = shared_table_.defined() ? shaped(shared_table_) : Tensor();
      if (!bias_tables_.empty()) {
        const Tensor own = shaped(bias_tables_[i]);
        bias = bias.defined() ? add(bias, own) : own;
      }
      pass.bias = bias;
      rows = blocks_[i](rows, pass, layer);
      observe_hidden("hidden_states", layer + 1, tokens, rows);
    }
    return rows;
  }

  VisionEncoderConfig c_;
  Grid grid_;
  bool classifies_ = false;
  ProblemType problem_ = ProblemType::unspecified;
  std::vector<Tensor> tokens_, bias_tables_;
  Tensor positions_, registers_, patch_weight_, patch_bias_, shared_table_;
  std::vector<Block> blocks_;
  Norm norm_, pooled_norm_;
  Linear pooler_, classifier_, distilled_;
};

}  // namespace

VisionEncoderConfig vit_like_config(const Json& config, const std::string& family,
                                    const std::string& base) {
  VisionEncoderConfig c;
  EncoderConfig& l = c.layers;
  l.family = family;
  l.hidden_size = size_of(config, "hidden_size");
  l.num_layers = layer_count(config, "num_hidden_layers");
  l.num_heads = size_of(config, "num_attention_heads");
  head_dim(config, "hidden_size", l.hidden_size, "num_attention_heads", l.num_heads);
  l.intermediate_size = size_or(config, "intermediate_size", 4 * l.hidden_size);
  l.pre_norm = true;
  l.norm.eps = positive_or(config, "layer_norm_eps", 1e-12);
  l.init = Init::normal(positive_or(config, "initializer_range", 0.02));
  l.dropout = rate_or(config, "hidden_dropout_prob", 0.0);
  l.attention_dropout = rate_or(config, "attention_probs_dropout_prob", 0.0);
  l.activation = activation_of(config, "hidden_act", "gelu");
  l.attention_bias = config.boolean_or("qkv_bias", true);
  l.output_bias = true;
  l.names.query = "attention.attention.query";
  l.names.key = "attention.attention.key";
  l.names.value = "attention.attention.value";
  l.names.attention_norm = "layernorm_before";
  l.names.mlp_norm = "layernorm_after";
  c.image = sides(config, "image_size");
  c.patch = sides(config, "patch_size");
  c.channels = size_or(config, "num_channels", 3);
  c.base = base;
  c.tokens = {"cls_token"};
  return c;
}

std::unique_ptr<Model> make_vision_encoder(const Json& config, const Scope& scope,
                                           const VisionEncoderConfig& vision) {
  return std::make_unique<VisionEncoder>(config, scope, vision);
}

ModelSpec vit_like_spec(const std::string& model_type, const std::string& family,
                        const std::string& base,
                        const std::function<VisionEncoderConfig(const Json& config)>& read) {
  ModelSpec spec;
  spec.model_type = model_type;
  spec.kind = ModelKind::vision;
  spec.heads = {{family + "ForImageClassification", "image-classification", "classifier."},
                {family + "Model", "", ""}};
  spec.ties.prefix = base + ".";
  spec.train_tasks = {"image-classify"};
  spec.fresh_config = [model_type](const FreshSizes& sizes) {
    return find_model_spec("vit")->fresh_config(sizes).set("model_type", model_type);
  };
  spec.make = [read](const Json& config, const Scope& scope) {
    return make_vision_encoder(config, scope, read(config));
  };
  return spec;
}

}  // namespace heed
