#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/utf8.h"
#include "io/gguf.h"
#include "text/gguf_pretokenizer.h"
#include "text/legacy_files.h"
#include "text/spm.h"
#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

using nlohmann::json;
using Type = SpmVocabulary::Type;

struct Entries {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
};

Entries read_entries(const GgufFile& gguf) {
  Entries entries;
  entries.tokens = gguf.strings("tokenizer.ggml.tokens");
  check_data(!entries.tokens.empty(), gguf.file(), "tokenizer.ggml.tokens is empty");
  for (size_t i = 0; i < entries.tokens.size(); ++i) {
    check_data(is_valid_utf8(entries.tokens[i]), gguf.file(), "token {} ({}) is not UTF-8", i,
               quote(entries.tokens[i]));
  }
  if (gguf.has("tokenizer.ggml.token_type")) {
    entries.types = gguf.integers("tokenizer.ggml.token_type", 0, 6);
  } else {
    entries.types.assign(entries.tokens.size(), static_cast<int64_t>(Type::normal));
  }
  check_data(entries.types.size() == entries.tokens.size(), gguf.file(),
             "tokenizer.ggml.token_type has {} entries, tokenizer.ggml.tokens {}",
             entries.types.size(), entries.tokens.size());
  return entries;
}

std::optional<TokenId> id_of(const GgufFile& gguf, std::string_view key, size_t tokens) {
  const std::string name = "tokenizer.ggml." + std::string(key);
  if (!gguf.has(name)) {
    return std::nullopt;
  }
  return gguf.integer(name, 0, static_cast<int64_t>(tokens) - 1);
}

/// {"token": id}; a token that comes twice is an error, as its second id could never be reached.
json vocabulary_json(const GgufFile& gguf, const std::vector<std::string>& tokens) {
  json vocabulary = json::object();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto [place, fresh] = vocabulary.emplace(tokens[i], i);
    check_data(fresh, gguf.file(), "tokens {} and {} are both {}", place->dump(), i,
               quote(tokens[i]));
  }
  return vocabulary;
}

std::shared_ptr<TokenizerImpl> load_byte_bpe(const GgufFile& gguf, const Entries& entries) {
  std::vector<std::string> special;
  for (size_t i = 0; i < entries.tokens.size(); ++i) {
    if (entries.types[i] == static_cast<int64_t>(Type::control)) {
      special.push_back(entries.tokens[i]);
    }
  }
  const size_t count = entries.tokens.size();
  const auto bos = id_of(gguf, "bos_token_id", count);
  const auto eos = id_of(gguf, "eos_token_id", count);
  for (const auto& id : {bos, eos}) {
    if (id && std::find(special.begin(), special.end(), entries.tokens[static_cast<size_t>(*id)]) ==
                  special.end()) {
      special.push_back(entries.tokens[static_cast<size_t>(*id)]);
    }
  }
  json document = byte_bpe_document(vocabulary_json(gguf, entries.tokens),
                                    gguf.strings("tokenizer.ggml.merges"), special);
  GgufPreTokenizer split = gguf_pretokenizer(gguf.string_or("tokenizer.ggml.pre", ""), gguf.file());
  if (!split.steps.is_null()) {
    document["pre_tokenizer"] = std::move(split.steps);
  }
  document["model"]["ignore_merges"] = split.ignore_merges;
  for (size_t i = 0; i < entries.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (entries.types[i] == static_cast<int64_t>(Type::user_defined) && id != bos && id != eos) {
      document["added_tokens"].push_back({{"id", i},
                                          {"content", entries.tokens[i]},
                                          {"single_word", false},
                                          {"lstrip", false},
                                          {"rstrip", false},
                                          {"normalized", false},
                                          {"special", false}});
    }
  }
  auto impl = build(adopt_json(std::move(document), gguf.file()),
                    {.special_in_text = true, .model = nullptr});
  using Item = PostProcessor::Item;
  if (bos && gguf.boolean_or("tokenizer.ggml.add_bos_token", split.add_bos)) {
    impl->post.single.insert(impl->post.single.begin(), {Item::Kind::special, 0, {*bos}});
    impl->post.pair.insert(impl->post.pair.begin(), {Item::Kind::special, 0, {*bos}});
  }
  impl->special.bos = bos;
  impl->special.eos = eos;
  return impl;
}

/// llama.cpp keeps BERT's words with ▁ before them and the continuations bare.
std::shared_ptr<TokenizerImpl> load_bert(const GgufFile& gguf, Entries entries) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  bool upper = false;
  for (std::string& token : entries.tokens) {
    if (token.starts_with(kSpace)) {
      token.erase(0, kSpace.size());
    } else if (!(token.starts_with('[') && token.ends_with(']') && token.size() > 2)) {
      token.insert(0, "##");
    }
    upper = upper ||
            (!token.starts_with('[') &&
             std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
  }
  return build(
      adopt_json(wordpiece_document(vocabulary_json(gguf, entries.tokens), !upper), gguf.file()));
}

std::shared_ptr<TokenizerImpl> load_spm(const GgufFile& gguf, const Entries& entries,
                                        bool unigram) {
  const size_t count = entries.tokens.size();
  const std::vector<double> scores = gguf.numbers("tokenizer.ggml.scores");
  check_data(scores.size() == count, gguf.file(),
             "tokenizer.ggml.scores has {} entries, tokenizer.ggml.tokens {}", scores.size(),
             count);
  SpmVocabulary v;
  v.file = gguf.file();
  v.unigram = unigram;
  v.byte_fallback = std::find(entries.types.begin(), entries.types.end(),
                              static_cast<int64_t>(Type::byte)) != entries.types.end();
  for (size_t i = 0; i < count; ++i) {
    check_data(scores[i] == scores[i], gguf.file(), "the score of token {} is not a number", i);
    const auto type = std::max<int64_t>(entries.types[i], 1);
    v.pieces.push_back({entries.tokens[i], static_cast<float>(scores[i]), static_cast<Type>(type)});
  }
  v.prefix_space = gguf.boolean_or("tokenizer.ggml.add_space_prefix", true);
  v.squeeze_spaces = gguf.boolean_or("tokenizer.ggml.remove_extra_whitespaces", unigram);
  if (gguf.has("tokenizer.ggml.precompiled_charsmap")) {
    for (const int64_t byte : gguf.integers("tokenizer.ggml.precompiled_charsmap", -128, 255)) {
      v.charsmap += static_cast<char>(byte);
    }
  }
  v.unk = id_of(gguf, "unknown_token_id", count);
  v.bos = id_of(gguf, "bos_token_id", count);
  v.eos = id_of(gguf, "eos_token_id", count);
  v.pad = id_of(gguf, "padding_token_id", count);
  v.add_bos = gguf.boolean_or("tokenizer.ggml.add_bos_token", !unigram);
  v.add_eos = gguf.boolean_or("tokenizer.ggml.add_eos_token", unigram);
  v.special_in_text = true;
  return build_spm(v);
}

constexpr std::string_view kWhole = "tokenizer.huggingface.json";

/// The tokenizer.json that came along says more than the ggml keys, which only name special tokens.
std::shared_ptr<TokenizerImpl> load_whole(const GgufFile& gguf, size_t tokens) {
  auto impl = build(gguf.string(kWhole), gguf.file());
  const std::pair<const char*, std::optional<TokenId>*> roles[] = {
      {"bos_token_id", &impl->special.bos},     {"eos_token_id", &impl->special.eos},
      {"padding_token_id", &impl->special.pad}, {"unknown_token_id", &impl->special.unk},
      {"cls_token_id", &impl->special.cls},     {"seperator_token_id", &impl->special.sep},
      {"mask_token_id", &impl->special.mask},
  };
  for (const auto& [key, place] : roles) {
    *place = id_of(gguf, key, tokens);
  }
  return impl;
}

}  // namespace

std::shared_ptr<TokenizerImpl> load_gguf(const std::filesystem::path& path) {
  const GgufFile gguf(path);
  const std::string model = gguf.string("tokenizer.ggml.model");
  Entries entries = read_entries(gguf);
  if (gguf.has(kWhole)) {
    return load_whole(gguf, entries.tokens.size());
  }
  if (model == "gpt2") {
    return load_byte_bpe(gguf, entries);
  }
  if (model == "llama" || model == "t5") {
    return load_spm(gguf, entries, model == "t5");
  }
  if (model == "bert") {
    return load_bert(gguf, std::move(entries));
  }
  fail(ErrorKind::data, gguf.file(),
       "tokenizer.ggml.model {} is not known (gpt2, llama, t5 and bert are)", quote(model));
}

}  // namespace heed::text
