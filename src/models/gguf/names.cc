#include "models/gguf/names.h"

#include <fmt/format.h>

namespace heed::gguf {
namespace {

constexpr const char* kGgufLayers = "blk.";

/// A name below the layers, or a whole one where `layer` is empty: "blk.12.attn_q.weight" is
/// {"12", "attn_q", ".weight"}.
struct Parts {
  std::string_view layer, name, ending;
};
std::optional<Parts> parts_of(std::string_view text, std::string_view layers) {
  Parts parts;
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  parts.ending = text.substr(dot);
  text = text.substr(0, dot);
  if (!layers.empty() && text.starts_with(layers)) {
    text.remove_prefix(layers.size());
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

/// A name with a number in place of "#"; `text` itself where there is none.
std::string numbered(const std::string& text, std::string_view number) {
  const size_t at = text.find('#');
  return at == std::string::npos ? text : std::string(text).replace(at, 1, number);
}

/// The number that `text` has where `pattern` has "#": empty where both are equal without one.
std::optional<std::string_view> number_in(std::string_view text, std::string_view pattern) {
  const size_t at = pattern.find('#');
  if (at == std::string_view::npos) {
    return text == pattern ? std::optional(std::string_view()) : std::nullopt;
  }
  const std::string_view behind = pattern.substr(at + 1);
  if (text.size() <= at + behind.size() || !text.starts_with(pattern.substr(0, at)) ||
      !text.ends_with(behind)) {
    return std::nullopt;
  }
  const std::string_view number = text.substr(at, text.size() - at - behind.size());
  const bool digits = number.find_first_not_of("0123456789") == std::string_view::npos;
  return digits ? std::optional(number) : std::nullopt;
}

/// Translates by the table; `from` and `to` are the entry's members.
std::optional<Name> translate(const GgufSpec& spec, std::string_view text,
                              std::string GgufTensor::*from, std::string GgufTensor::*to,
                              std::string_view from_layers, std::string_view to_layers) {
  const auto parts = parts_of(text, from_layers);
  if (!parts) {
    return std::nullopt;
  }
  const bool inside = !parts->layer.empty();
  for (const GgufTensor& entry : inside ? spec.layer_tensors : spec.tensors) {
    if (const auto number = number_in(parts->name, entry.*from)) {
      const bool plain = parts->ending == ".bias" && entry.layout == GgufLayout::transposed;
      const std::string name = numbered(entry.*to, *number);
      return Name{inside ? fmt::format("{}{}.{}{}", to_layers, parts->layer, name, parts->ending)
                         : fmt::format("{}{}", name, parts->ending),
                  plain ? GgufLayout::same : entry.layout};
    }
  }
  return std::nullopt;
}

bool is_kept(const GgufSpec& spec, std::string_view name) {
  return !spec.kept.empty() && name.starts_with(spec.kept);
}

}  // namespace

std::optional<Name> checkpoint_name(const GgufSpec& spec, std::string_view gguf_name) {
  if (is_kept(spec, gguf_name)) {
    return Name{std::string(gguf_name)};
  }
  return translate(spec, gguf_name, &GgufTensor::gguf, &GgufTensor::checkpoint, kGgufLayers,
                   spec.layers);
}

std::optional<Name> gguf_name(const GgufSpec& spec, std::string_view checkpoint_name) {
  if (is_kept(spec, checkpoint_name)) {
    return Name{std::string(checkpoint_name)};
  }
  if (checkpoint_name.starts_with(spec.prefix)) {
    checkpoint_name.remove_prefix(spec.prefix.size());
  }
  return translate(spec, checkpoint_name, &GgufTensor::checkpoint, &GgufTensor::gguf, spec.layers,
                   kGgufLayers);
}

}  // namespace heed::gguf
