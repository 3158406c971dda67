#include "models/image_text_towers.h"

#include <algorithm>

#include "base/check.h"
#include "base/language.h"

namespace heed {
namespace {

std::vector<Block> tower_blocks(const Scope& scope, const EncoderConfig& c) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < c.num_layers; ++i) {
    blocks.push_back(make_encoder_block(scope, scope / "encoder" / "layers" / i, c, i));
  }
  return blocks;
}

}  // namespace

TextTower::TextTower(const Scope& scope, const TextTowerConfig& config) : c_(config) {
  const EncoderConfig& l = c_.layers;
  const Scope embeddings = scope / "embeddings";
  tokens_ = Embedding(embeddings / "token_embedding", l.vocab_size, l.hidden_size, l.init);
  positions_ =
      Embedding(embeddings / "position_embedding", l.context_length, l.hidden_size, l.init);
  scope.ignore({"*embeddings.position_ids"}, say("positions, which heed counts itself"), true);
  blocks_ = tower_blocks(scope, l);
  norm_ = Norm(scope / "final_layer_norm", l.hidden_size, l.norm);
  if (c_.head_size > 0) {
    head_ = Linear(scope / "head", l.hidden_size, c_.head_size, {.init = l.init});
  }
}

TokenRows TextTower::read(const ModelInput& input, const InputUse& use,
                          const std::string& name) const {
  // The last row stands for the text even where it is padding, so that none can be left out.
  return read_tokens(input, use, name, c_.layers.vocab_size, c_.layers.context_length,
                     input.skip_padding && c_.end_token.has_value());
}

Tensor TextTower::run(const TokenRows& tokens, const ModelInput& input, bool recompute) const {
  const Tensor rows = add(observe("hook_embed", tokens_(tokens.ids)),
                          observe("hook_pos_embed", positions_(tokens.positions)));
  const Tensor out = run_stack(blocks_, {}, rows, tokens.pass(input), recompute, &tokens);
  return observe("ln_final.hook_normalized", norm_(out));
}

Tensor TextTower::pooled(const Tensor& rows, const TokenRows& tokens,
                         const ModelInput& input) const {
  const Tensor batch = tokens.to_batch(rows);
  const Tensor ids = input.input_ids.to(DType::i64).contiguous();
  std::vector<int64_t> ends;
  for (int64_t b = 0; b < tokens.batch; ++b) {
    const int64_t* row = ids.data<int64_t>() + b * tokens.length;
    const int64_t* end = row + tokens.length;
    const int64_t* at = end - 1;
    if (c_.end_token) {
      constexpr int64_t kLargest = 2;
      at = *c_.end_token == kLargest ? std::max_element(row, end)
                                     : std::find(row, end, *c_.end_token);
      at = at == end ? row : at;
    }
    ends.push_back(b * tokens.length + (at - row));
  }
  const Tensor flat = reshape(batch, {tokens.batch * tokens.length, batch.size(2)});
  const Tensor picked = index_rows(flat, Tensor::from(ends, {tokens.batch}));
  return head_.defined() ? head_(picked) : picked;
}

AttentionPool::AttentionPool(const Scope& scope, const EncoderConfig& c)
    : probe_(scope.parameter("probe", {1, 1, c.hidden_size}, c.init)),
      attention_(scope / "attention", {.embed_dim = c.hidden_size, .num_heads = c.num_heads}),
      norm_(scope / "layernorm", c.hidden_size, c.norm),
      up_(scope / "mlp" / "fc1", c.hidden_size, c.intermediate_size, {.init = c.init}),
      down_(scope / "mlp" / "fc2", c.intermediate_size, c.hidden_size, {.init = c.init}),
      activation_(c.activation) {}

Tensor AttentionPool::operator()(const Tensor& x) const {
  const HookScope hook_scope("head");
  const Tensor query = expand(probe_, {x.size(0), 1, x.size(2)});
  const Tensor seen = reshape(attention_(query, x, x).output, {x.size(0), x.size(2)});
  return add(seen, down_(up_(norm_(seen), activation_)));
}

ImageTower::ImageTower(const Json& config, const Scope& scope, const ImageTowerConfig& tower)
    : c_(tower) {
  const EncoderConfig& l = c_.layers;
  // What is left over of an image behind the last whole patch is not read.
  grid_ = {c_.image.height / c_.patch.height, c_.image.width / c_.patch.width};
  check_data(grid_.count() > 0, config.file(), "image_size {} x {} is smaller than a patch",
             c_.image.height, c_.image.width);
  const Scope embeddings = scope / "embeddings";
  if (c_.class_token) {
    class_ = embeddings.parameter("class_embedding", {l.hidden_size}, l.init);
  }
  const Scope projection = embeddings / "patch_embedding";
  patch_weight_ = projection.parameter(
      "weight", {l.hidden_size, c_.channels, c_.patch.height, c_.patch.width}, l.init);
  if (c_.patch_bias) {
    patch_bias_ = projection.parameter("bias", {l.hidden_size}, Init::zeros());
  }
  positions_ = (embeddings / "position_embedding")
                   .parameter("weight", {grid_.count() + first_patch(), l.hidden_size}, l.init);
  scope.ignore({"*embeddings.position_ids"}, say("positions, which heed counts itself"), true);
  if (c_.pre_norm) {
    pre_norm_ = Norm(scope / "pre_layrnorm", l.hidden_size, l.norm);
  }
  blocks_ = tower_blocks(scope, l);
  norm_ = Norm(scope / "post_layernorm", l.hidden_size, l.norm);
  if (c_.attention_pool) {
    pool_ = AttentionPool(scope / "head", l);
  }
}

Tensor ImageTower::run(const ModelInput& input, bool recompute) const {
  TokenRows tokens;
  Tensor rows = embed(input, tokens);
  rows = pre_norm_.defined() ? pre_norm_(rows) : rows;
  rows = run_stack(blocks_, {}, rows, tokens.pass(input), recompute, &tokens);
  rows = c_.norm_all ? observe("ln_final.hook_normalized", norm_(rows)) : rows;
  return tokens.to_batch(rows);
}

Tensor ImageTower::pooled(const Tensor& rows) const {
  if (c_.attention_pool) {
    return pool_(rows);
  }
  return c_.class_token ? norm_(contiguous(select(rows, 1, 0))) : Tensor();
}

Tensor ImageTower::patch_mean(const Tensor& rows) const {
  return mean(slice(rows, 1, first_patch(), rows.size(1)), 1);
}

Tensor ImageTower::embed(const ModelInput& input, TokenRows& tokens) const {
  const int64_t size = c_.layers.hidden_size;
  const Tensor& pixels = input.pixel_values;
  check(pixels.defined(), "forward", "pixel_values is missing");
  check(pixels.rank() == 4 && is_floating(pixels.dtype()) && pixels.size(1) == c_.channels &&
            pixels.numel() > 0,
        "forward", "pixel_values must be floating [batch, {}, height, width], not {} {}",
        c_.channels, name_of(pixels.dtype()), pixels.shape());
  const Grid grid{pixels.size(2) / c_.patch.height, pixels.size(3) / c_.patch.width};
  check(grid.count() > 0, "forward", "pixel_values {} is smaller than a patch of {} x {}",
        pixels.shape(), c_.patch.height, c_.patch.width);
  const Tensor whole = slice(slice(pixels.to(DType::f32), 2, 0, grid.height * c_.patch.height), 3,
                             0, grid.width * c_.patch.width);
  tokens.batch = pixels.size(0);
  tokens.length = grid.count() + first_patch();
  tokens.layout = Layout::equal(tokens.batch, tokens.length);
  Tensor rows = linear(unfold_patches(contiguous(whole), c_.patch.height, c_.patch.width),
                       reshape(patch_weight_, {size, c_.channels * c_.patch.count()}), patch_bias_);
  if (class_.defined()) {
    rows = concat({expand(reshape(class_, {1, 1, size}), {tokens.batch, 1, size}), rows}, 1);
  }
  Tensor positions = positions_;
  if (!(grid == grid_)) {
    const Tensor patches = slice(positions_, 0, first_patch(), positions_.size(0));
    positions = matmul(resize_matrix(grid_, grid), patches);
    positions = class_.defined() ? concat({slice(positions_, 0, 0, 1), positions}, 0) : positions;
  }
  rows = add(observe("hook_embed", rows), observe("hook_pos_embed", positions));
  return reshape(rows, {tokens.layout.rows(), size});
}

}  // namespace heed
