#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "heed/models.h"

namespace heed::gguf {

struct Name {
  std::string text;
  GgufLayout layout = GgufLayout::same;
};

/// "blk.3.attn_q.weight" -> "layers.3.self_attn.q_proj.weight", without the model's own prefix
/// ("model."); nothing where the architecture has no such name. Names of heads that GGUF does not
/// know stay as they are.
std::optional<Name> checkpoint_name(const GgufSpec& spec, std::string_view gguf_name);
/// The other direction; the prefix may be there or not.
std::optional<Name> gguf_name(const GgufSpec& spec, std::string_view checkpoint_name);

}  // namespace heed::gguf
