#include "models/gguf/names.h"

#include <fmt/format.h>

#include <span>

namespace heed::gguf {
namespace {

struct Pair {
  const char* gguf;
  const char* checkpoint;
  Turn turn = Turn::none;
};

struct Architecture {
  const char* name;
  const char* prefix;  // of the checkpoint's base model
  const char* blocks;  // "h.", before a layer's number
  std::span<const Pair> whole;
  std::span<const Pair> block;
  const char* kept;  // heads that GGUF has no name for, by how they start; may be empty
};

constexpr Pair kGpt2[] = {{"token_embd", "wte"},
                          {"position_embd", "wpe"},
                          {"output_norm", "ln_f"},
                          {"output", "lm_head"}};
constexpr Pair kGpt2Block[] = {
    {"attn_norm", "ln_1"},
    {"attn_qkv", "attn.c_attn", Turn::transposed},
    {"attn_output", "attn.c_proj", Turn::transposed},
    {"ffn_norm", "ln_2"},
    {"ffn_up", "mlp.c_fc", Turn::transposed},
    {"ffn_down", "mlp.c_proj", Turn::transposed},
};
constexpr Pair kLlama[] = {
    {"token_embd", "embed_tokens"}, {"output_norm", "norm"}, {"output", "lm_head"}};
constexpr Pair kLlamaBlock[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", Turn::query_pairs},
    {"attn_k", "self_attn.k_proj", Turn::key_pairs},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr Pair kBert[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"cls", "pooler.dense"},
    {"cls.output", "classifier"},
};
constexpr Pair kBertBlock[] = {
    {"attn_q", "attention.self.query"},
    {"attn_k", "attention.self.key"},
    {"attn_v", "attention.self.value"},
    {"attn_output", "attention.output.dense"},
    {"attn_output_norm", "attention.output.LayerNorm"},
    {"ffn_up", "intermediate.dense"},
    {"ffn_down", "output.dense"},
    {"layer_output_norm", "output.LayerNorm"},
};
const Architecture kArchitectures[] = {
    {"gpt2", "transformer.", "h.", kGpt2, kGpt2Block, ""},
    {"llama", "model.", "layers.", kLlama, kLlamaBlock, ""},
    {"bert", "bert.", "encoder.layer.", kBert, kBertBlock, "cls.predictions."},
};

const Architecture* find(std::string_view name) {
  for (const Architecture& each : kArchitectures) {
    if (name == each.name) {
      return &each;
    }
  }
  return nullptr;
}

/// "blk.12.attn_q.weight" as {"blk.", "12", "attn_q", ".weight"}: a name below `blocks`, or a whole
/// one where the number is empty.
struct Parts {
  std::string_view layer, name, ending;
};
std::optional<Parts> parts_of(std::string_view text, std::string_view blocks) {
  Parts parts;
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  parts.ending = text.substr(dot);
  text = text.substr(0, dot);
  if (text.starts_with(blocks)) {
    text.remove_prefix(blocks.size());
    const size_t digits = text.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos || text[digits] != '.') {
      return std::nullopt;
    }
    parts.layer = text.substr(0, digits);
    text.remove_prefix(digits + 1);
  }
  parts.name = text;
  return parts;
}

constexpr const char* kGgufBlocks = "blk.";

/// Translates by the pairs; `from` and `to` are the pair's members.
std::optional<Name> translate(const Architecture& architecture, std::string_view text,
                              const char* Pair::*from, const char* Pair::*to,
                              std::string_view from_blocks, std::string_view to_blocks) {
  const auto parts = parts_of(text, from_blocks);
  if (!parts) {
    return std::nullopt;
  }
  const bool block = !parts->layer.empty();
  for (const Pair& pair : block ? architecture.block : architecture.whole) {
    if (parts->name == pair.*from) {
      const bool bias = parts->ending == ".bias";
      Turn turn = pair.turn;
      if (bias && turn == Turn::transposed) {
        turn = Turn::none;
      }
      return Name{block ? fmt::format("{}{}.{}{}", to_blocks, parts->layer, pair.*to, parts->ending)
                        : fmt::format("{}{}", pair.*to, parts->ending),
                  turn};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const Architecture& each : kArchitectures) {
    names.emplace_back(each.name);
  }
  return names;
}

bool is_known(std::string_view architecture) { return find(architecture) != nullptr; }

std::optional<Name> checkpoint_name(std::string_view architecture, std::string_view gguf_name) {
  const Architecture& known = *find(architecture);
  if (*known.kept != '\0' && gguf_name.starts_with(known.kept)) {
    return Name{std::string(gguf_name)};
  }
  return translate(known, gguf_name, &Pair::gguf, &Pair::checkpoint, kGgufBlocks, known.blocks);
}

std::optional<Name> gguf_name(std::string_view architecture, std::string_view checkpoint_name) {
  const Architecture& known = *find(architecture);
  if (*known.kept != '\0' && checkpoint_name.starts_with(known.kept)) {
    return Name{std::string(checkpoint_name)};
  }
  const std::string_view prefix = known.prefix;
  if (checkpoint_name.starts_with(prefix)) {
    checkpoint_name.remove_prefix(prefix.size());
  }
  return translate(known, checkpoint_name, &Pair::checkpoint, &Pair::gguf, known.blocks,
                   kGgufBlocks);
}

}  // namespace heed::gguf
