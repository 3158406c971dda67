#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::gguf {

/// How a tensor lies in GGUF compared with Hugging Face's checkpoint.
enum class Turn {
  none,
  transposed,   ///< GPT-2's Conv1D: [in, out] there, [out, in] in GGUF
  query_pairs,  ///< rows of each head in pairs (2i, 2i+1) instead of halves (i, i + width/2)
  key_pairs,    ///< likewise, with the heads of keys and values
};

struct Name {
  std::string text;
  Turn turn = Turn::none;
};

/// The architectures whose names are known: gpt2, llama, bert.
std::vector<std::string> architectures();
bool is_known(std::string_view architecture);

/// "blk.3.attn_q.weight" -> "layers.3.self_attn.q_proj.weight", without the model's own prefix
/// ("model."); nothing where GGUF has no such name. Names of heads that GGUF does not know stay as
/// they are.
std::optional<Name> checkpoint_name(std::string_view architecture, std::string_view gguf_name);
/// The way back; the prefix may be there or not.
std::optional<Name> gguf_name(std::string_view architecture, std::string_view checkpoint_name);

}  // namespace heed::gguf
