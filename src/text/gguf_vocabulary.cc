#include "text/gguf_vocabulary.h"

#include "base/check.h"
#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

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
VocabularyEntries entries_of(const Json& document, int64_t rows) {
  VocabularyEntries entries;
  const auto count = static_cast<size_t>(rows);
  entries.types.assign(count, kUnused);
  entries.scores.assign(count, 0.0f);
  for (size_t i = 0; i < count; ++i) {
    entries.tokens.push_back(fmt::format("[PAD{}]", i));
  }
  const auto index = [&](const Json& id) { return static_cast<size_t>(id.integer(0, rows - 1)); };
  const Json vocabulary = document.at("model").at("vocab");
  if (vocabulary.is_array()) {  // unigram: [token, score]
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      entries.tokens[i] = vocabulary[i][0].string();
      entries.scores[i] = static_cast<float>(vocabulary[i][1].number());
      entries.types[i] = kNormal;
    }
  } else {
    vocabulary.for_each([&](const std::string& token, const Json& id) {
      entries.tokens[index(id)] = token;
      entries.types[index(id)] = is_byte_token(token) ? kByte : kNormal;
    });
  }
  if (const auto added = document.find("added_tokens")) {
    for (const Json& token : added->elements()) {
      const size_t id = index(token.at("id"));
      entries.tokens[id] = token.string("content");
      entries.types[id] = token.boolean_or("special", false) ? kControl : kUserDefined;
    }
  }
  return entries;
}

/// A merge as "left right", whichever way the file writes it.
std::string merge_text(const Json& merge) {
  return merge.is_string() ? merge.string() : merge[0].string() + " " + merge[1].string();
}

/// llama.cpp's name for how a byte-level tokenizer cuts words.
std::string pretokenizer_name(const Json& document) {
  const auto found = document.find("pre_tokenizer");
  const std::string text = found ? found->dump() : "";
  if (text.find("\\\\p{N}{1,3}") != std::string::npos) {
    return "llama-bpe";
  }
  return text.find("\"Split\"") != std::string::npos ? "qwen2" : "gpt-2";
}

void add_byte_bpe(GgufWriter& writer, const Json& document) {
  std::vector<std::string> merges;
  for (const Json& merge : document.at("model").at("merges").elements()) {
    merges.push_back(merge_text(merge));
  }
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", pretokenizer_name(document));
  writer.strings("tokenizer.ggml.merges", merges);
}

/// SentencePiece's BPE merges by score: the earlier a merge, the higher the score of its result.
void add_scored_bpe(GgufWriter& writer, const Json& document, VocabularyEntries& entries) {
  std::unordered_map<std::string, float> scores;
  float score = 0.0f;
  for (const Json& merge : document.at("model").at("merges").elements()) {
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
  const Json document = Json::parse(text, tokenizer.impl().file);
  const Json model = document.at("model");
  VocabularyEntries entries = entries_of(document, rows);
  if (const auto unknown = tokenizer.special().unk) {
    entries.types[static_cast<size_t>(*unknown)] = kUnknown;
  }
  const std::string type = model.string_or("type", "BPE");
  if (type == "WordPiece") {
    add_wordpiece(writer, entries);
  } else if (type == "Unigram") {
    add_unigram(writer, entries);
  } else if (!model.has("merges")) {
    writer.string("tokenizer.ggml.model", "none");  // whole words: llama.cpp has nothing like it
  } else if (model.boolean_or("byte_fallback", false)) {
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
