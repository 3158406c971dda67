#include "models/ties.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "heed/models.h"

namespace heed {
namespace {

constexpr const char* kShared = "share_encoder_decoder_embeddings";

TensorMap::iterator find(TensorMap& tensors, const std::string& before, const TiedWeights& tie,
                         std::string_view name) {
  const auto whole = tensors.find(before + std::string(tie.prefix) + std::string(name));
  return whole != tensors.end() ? whole : tensors.find(before + std::string(name));
}

bool same(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) {
    return false;
  }
  const Tensor left = a.contiguous();
  const Tensor right = b.contiguous();
  return left.raw() == right.raw() ||
         std::memcmp(left.raw(), right.raw(), static_cast<size_t>(left.bytes())) == 0;
}

/// What a file keeps apart although config.json ties it.
struct Apart {
  bool head = false;   ///< the head has values of its own
  bool sides = false;  ///< encoder and decoder have embeddings of their own
  std::vector<std::string> set_when_untied = {};
};

/// Whether both sides' embeddings are there and one is not the shared one; that is then unused.
bool sides_apart(const TiedWeights& tie, const std::string& before, TensorMap& tensors,
                 TensorMap::iterator words) {
  bool differ = false;
  for (const std::string& copy : tie.copies) {
    const auto found = find(tensors, before, tie, copy);
    if (found == tensors.end()) {
      return false;
    }
    differ = differ || !same(found->second, words->second);
  }
  return differ;
}

/// The embedding by its own name, where the file has it by another one only.
void name_words(const TiedWeights& tie, const std::string& before, bool tied, TensorMap& tensors) {
  const auto head = tensors.find(before + std::string(tie.lm_head));
  Tensor stored = tied && head != tensors.end() ? head->second : Tensor();
  for (const std::string& copy : tie.copies) {
    const auto found = find(tensors, before, tie, copy);
    if (!stored.defined() && found != tensors.end()) {
      stored = found->second;
    }
  }
  if (stored.defined()) {
    tensors.emplace(before + std::string(tie.prefix) + std::string(tie.embedding), stored);
  }
}

/// `before` is what stands in front of all names.
Apart resolve(const Json& config, const std::string& before, TensorMap& tensors) {
  const ModelSpec* spec = find_model_spec(config.string_or("model_type", ""));
  if (spec == nullptr || spec->ties.embedding.empty() || !config.boolean_or(kShared, true)) {
    return {};  // Marian may have an embedding per side: nothing is shared then
  }
  const TiedWeights& tie = spec->ties;
  const bool tied = config.boolean_or("tie_word_embeddings", tie.tied_by_default);
  const auto words = find(tensors, before, tie, tie.embedding);
  if (words == tensors.end()) {
    name_words(tie, before, tied, tensors);
    return {};
  }
  Apart apart;
  const auto head = tensors.find(before + tie.lm_head);
  apart.head = tied && head != tensors.end() && !same(head->second, words->second);
  apart.set_when_untied = tie.set_when_untied;
  apart.sides = tie.sides_may_differ && sides_apart(tie, before, tensors, words);
  if (apart.sides) {
    tensors.erase(words);
  }
  return apart;
}

}  // namespace

Json resolve_tied_weights(const Json& config, TensorMap& tensors) {
  // The part that writes tokens: a vision-encoder-decoder's decoder, a RAG's generator.
  std::string part;
  for (const char* name : {"decoder", "generator"}) {
    const auto found = config.find(name);
    part = found && found->is_object() ? name : part;
  }
  const bool nested = !part.empty();
  std::string before = nested ? part + "." : "";
  if (part == "generator" && std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
        return tensor.first.starts_with("rag.");
      })) {
    before = "rag." + before;
  }
  const Apart apart = resolve(nested ? config.at(part) : config, before, tensors);
  if (!apart.head && !apart.sides) {
    return config;
  }
  const Json writer = nested ? config.at(part) : config;
  JsonBuilder changed(writer);
  if (apart.sides) {
    changed.set(kShared, false);
  }
  if (apart.head) {
    for (const std::string& flag : apart.set_when_untied) {
      if (!writer.mentions(flag)) {
        changed.set(flag, true);  // as a tied head has it
      }
    }
    changed.set("tie_word_embeddings", false);
  }
  return nested ? JsonBuilder(config).set(part, changed).build(config.file())
                : changed.build(config.file());
}

}  // namespace heed
