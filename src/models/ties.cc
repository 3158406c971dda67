#include "models/ties.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

namespace heed {
namespace {

constexpr const char* kShared = "share_encoder_decoder_embeddings";

/// One matrix by several names. `prefix` may be missing in front of a base model's names.
struct Tie {
  std::string_view type;
  std::string_view prefix;
  std::string_view words;                ///< the embedding
  std::string_view head;                 ///< tied to it where tie_word_embeddings says so
  std::vector<std::string_view> copies;  ///< tied to it always
};

const std::vector<Tie>& ties() {
  static const std::vector<Tie> all = {
      {"gpt2", "transformer.", "wte.weight", "lm_head.weight", {}},
      {"llama", "model.", "embed_tokens.weight", "lm_head.weight", {}},
      {"mistral", "model.", "embed_tokens.weight", "lm_head.weight", {}},
      {"bert", "bert.", "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight", {}},
      {"distilbert",
       "distilbert.",
       "embeddings.word_embeddings.weight",
       "vocab_projector.weight",
       {}},
      {"t5",
       "",
       "shared.weight",
       "lm_head.weight",
       {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}},
      {"marian",
       "model.",
       "shared.weight",
       "lm_head.weight",
       {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}},
  };
  return all;
}

const Tie* tie_of(const std::string& type) {
  for (const Tie& tie : ties()) {
    if (type == tie.type) {
      return &tie;
    }
  }
  return nullptr;
}

TensorMap::iterator find(TensorMap& tensors, const std::string& before, const Tie& tie,
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
};

/// Whether both sides' embeddings are there and one is not the shared one; that is then unused.
bool sides_apart(const Tie& tie, const std::string& before, TensorMap& tensors,
                 TensorMap::iterator words) {
  bool differ = false;
  for (const std::string_view copy : tie.copies) {
    const auto found = find(tensors, before, tie, copy);
    if (found == tensors.end()) {
      return false;
    }
    differ = differ || !same(found->second, words->second);
  }
  return differ;
}

/// The embedding by its own name, where the file has it by another one only.
void name_words(const Tie& tie, const std::string& before, bool tied, TensorMap& tensors) {
  const auto head = tensors.find(before + std::string(tie.head));
  Tensor stored = tied && head != tensors.end() ? head->second : Tensor();
  for (const std::string_view copy : tie.copies) {
    const auto found = find(tensors, before, tie, copy);
    if (!stored.defined() && found != tensors.end()) {
      stored = found->second;
    }
  }
  if (stored.defined()) {
    tensors.emplace(before + std::string(tie.prefix) + std::string(tie.words), stored);
  }
}

/// `before` is what stands in front of all names.
Apart settle(const Json& config, const std::string& before, TensorMap& tensors) {
  const Tie* tie = tie_of(config.string_or("model_type", ""));
  if (tie == nullptr || !config.boolean_or(kShared, true)) {
    return {};  // Marian may have an embedding a side: nothing is shared then
  }
  const bool llama = tie->type == "llama" || tie->type == "mistral";
  const bool tied = config.boolean_or("tie_word_embeddings", !llama);
  const auto words = find(tensors, before, *tie, tie->words);
  if (words == tensors.end()) {
    name_words(*tie, before, tied, tensors);
    return {};
  }
  Apart apart;
  const auto head = tensors.find(before + std::string(tie->head));
  apart.head = tied && head != tensors.end() && !same(head->second, words->second);
  apart.sides = tie->type == "marian" && sides_apart(*tie, before, tensors, words);
  if (apart.sides) {
    tensors.erase(words);
  }
  return apart;
}

}  // namespace

Json resolve_tied_weights(const Json& config, TensorMap& tensors) {
  const bool nested = config.string_or("model_type", "") == "vision-encoder-decoder" &&
                      config.find("decoder") && config.at("decoder").is_object();
  const Apart apart =
      nested ? settle(config.at("decoder"), "decoder.", tensors) : settle(config, "", tensors);
  if (!apart.head && !apart.sides) {
    return config;
  }
  nlohmann::json changed = raw(config);
  nlohmann::json& writer = nested ? changed["decoder"] : changed;
  if (apart.sides) {
    writer[kShared] = false;
  }
  if (apart.head) {
    if (writer.value("model_type", "") == "t5") {
      writer.emplace("scale_decoder_outputs", true);  // as a tied head has it
    }
    writer["tie_word_embeddings"] = false;
  }
  return adopt_json(std::move(changed), config.file());
}

}  // namespace heed
