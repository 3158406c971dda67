#include "text/gguf_vocabulary.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

using nlohmann::json;

/// llama.cpp's kinds of tokens.
enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct VocabularyEntries {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
};

bool is_byte_token(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

/// Every id's token, from the model's vocabulary and the added tokens.
VocabularyEntries entries_of(const json& document, int64_t rows) {
  VocabularyEntries entries;
  const auto count = static_cast<size_t>(rows);
  entries.types.assign(count, kUnused);
  entries.scores.assign(count, 0.0f);
  for (size_t i = 0; i < count; ++i) {
    entries.tokens.push_back(fmt::format("[PAD{}]", i));
  }
  const json& vocabulary = document["model"]["vocab"];
  if (vocabulary.is_array()) {  // unigram: [token, score]
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      entries.tokens[i] = vocabulary[i][0].get<std::string>();
      entries.scores[i] = vocabulary[i][1].get<float>();
      entries.types[i] = kNormal;
    }
  } else {
    for (const auto& [token, id] : vocabulary.items()) {
      entries.tokens[id.get<size_t>()] = token;
      entries.types[id.get<size_t>()] = is_byte_token(token) ? kByte : kNormal;
    }
  }
  for (const json& added : document.value("added_tokens", json::array())) {
    const auto id = added["id"].get<size_t>();
    entries.tokens[id] = added["content"].get<std::string>();
    entries.types[id] = added.value("special", false) ? kControl : kUserDefined;
  }
  return entries;
}

/// A merge as "left right", whichever way the file writes it.
std::string merge_text(const json& merge) {
  return merge.is_string() ? merge.get<std::string>()
                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

/// llama.cpp's name for how a byte-level tokenizer cuts words.
std::string pretokenizer_name(const json& document) {
  const std::string text = document.value("pre_tokenizer", json()).dump();
  if (text.find("\\\\p{N}{1,3}") != std::string::npos) {
    return "llama-bpe";
  }
  return text.find("\"Split\"") != std::string::npos ? "qwen2" : "gpt-2";
}

void add_byte_bpe(GgufWriter& writer, const json& document) {
  std::vector<std::string> merges;
  for (const json& merge : document["model"]["merges"]) {
    merges.push_back(merge_text(merge));
  }
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", pretokenizer_name(document));
  writer.strings("tokenizer.ggml.merges", merges);
}

/// SentencePiece's BPE merges by score: the earlier a merge, the higher the score of its result.
void add_scored_bpe(GgufWriter& writer, const json& document, VocabularyEntries& entries) {
  std::unordered_map<std::string, float> scores;
  float score = 0.0f;
  for (const json& merge : document["model"]["merges"]) {
    std::string result = merge_text(merge);
    result.erase(result.find(' '), 1);
    scores.emplace(std::move(result), score);
    score -= 1.0f;
  }
  for (size_t i = 0; i < entries.tokens.size(); ++i) {
    const auto found = scores.find(entries.tokens[i]);
    entries.scores[i] = found != scores.end()         ? found->second
                        : entries.types[i] == kNormal ? score
                                                      : 0.0f;
  }
  writer.string("tokenizer.ggml.model", "llama");
  writer.f32s("tokenizer.ggml.scores", entries.scores);
}

void add_unigram(GgufWriter& writer, const VocabularyEntries& entries) {
  writer.string("tokenizer.ggml.model", "t5");
  writer.f32s("tokenizer.ggml.scores", entries.scores);
}

/// llama.cpp keeps BERT's words with ▁ before them and the continuations bare.
void add_wordpiece(GgufWriter& writer, VocabularyEntries& entries) {
  for (size_t i = 0; i < entries.tokens.size(); ++i) {
    std::string& token = entries.tokens[i];
    if (token.starts_with("##")) {
      token.erase(0, 2);
    } else if (!(token.starts_with('[') && token.ends_with(']') && token.size() > 2)) {
      token.insert(0, "\xE2\x96\x81");
    }
  }
  writer.string("tokenizer.ggml.model", "bert");
}

void add_roles(GgufWriter& writer, const SpecialTokens& special) {
  const std::pair<const char*, std::optional<TokenId>> roles[] = {
      {"bos", special.bos},     {"eos", special.eos}, {"padding", special.pad},
      {"unknown", special.unk}, {"cls", special.cls}, {"seperator", special.sep},
      {"mask", special.mask},
  };
  for (const auto& [name, id] : roles) {
    if (id) {
      writer.u32(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(*id));
    }
  }
}

}  // namespace

void add_vocabulary(GgufWriter& writer, const Tokenizer& tokenizer, int64_t rows) {
  check_data(tokenizer.vocab_size() <= rows, tokenizer.impl().file,
             "has ids up to {}, the model's embedding only {} rows", tokenizer.vocab_size() - 1,
             rows);
  const std::string text = tokenizer.impl().document();
  const json document = raw(Json::parse(text, tokenizer.impl().file));
  VocabularyEntries entries = entries_of(document, rows);
  if (const auto unknown = tokenizer.special().unk) {
    entries.types[static_cast<size_t>(*unknown)] = kUnknown;
  }
  const std::string type = document["model"].value("type", "BPE");
  if (type == "WordPiece") {
    add_wordpiece(writer, entries);
  } else if (type == "Unigram") {
    add_unigram(writer, entries);
  } else if (!document["model"].contains("merges")) {
    writer.string("tokenizer.ggml.model", "none");  // whole words: llama.cpp has nothing like it
  } else if (document["model"].value("byte_fallback", false)) {
    add_scored_bpe(writer, document, entries);
  } else {
    add_byte_bpe(writer, document);
  }
  writer.strings("tokenizer.ggml.tokens", entries.tokens);
  writer.i32s("tokenizer.ggml.token_type", entries.types);
  add_roles(writer, tokenizer.special());
  const std::vector<TokenId> empty = tokenizer.encode_ids("");
  const auto& special = tokenizer.special();
  writer.boolean("tokenizer.ggml.add_bos_token",
                 special.bos && !empty.empty() && empty.front() == *special.bos);
  writer.boolean("tokenizer.ggml.add_eos_token",
                 special.eos && !empty.empty() && empty.back() == *special.eos);
  writer.string("tokenizer.huggingface.json", text);
}

}  // namespace heed::text
