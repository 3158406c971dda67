#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heed/text.h"

namespace heed::test {

/// SentencePiece BPE with byte tokens, as Llama's: <unk> <s> </s>, 256 bytes, some pieces.
inline Tokenizer llama_tokenizer() {
  nlohmann::json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  int next = 3;
  constexpr const char* kHex = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = next++;
  }
  nlohmann::json merges = nlohmann::json::array();
  for (char c = 33; c < 127; ++c) {
    vocab[std::string(1, c)] = next++;
  }
  for (const char* piece : {"▁", "한", "é"}) {
    vocab[piece] = next++;
  }
  const auto merge = [&](const std::string& a, const std::string& b) {
    merges.push_back(a + " " + b);
    vocab[a + b] = next++;
  };
  merge("i", "l");
  merge("n", "d");
  merge("L", "il");
  merge("▁", "▁");
  merge("a", "nd");
  merge("▁", "Lil");
  merge("▁", "and");
  merge("▁Lil", "y");
  merge("\"", ":");
  merge("▁", "\"");
  merge("}", "]");
  merge("t", "r");
  merge("tr", "u");
  merge("tru", "e");
  merge("▁", "true");
  const nlohmann::json special = {{"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}};
  nlohmann::json added = nlohmann::json::array();
  for (const auto& [id, content] :
       std::initializer_list<std::pair<int, const char*>>{{0, "<unk>"}, {1, "<s>"}, {2, "</s>"}}) {
    nlohmann::json token = special;
    token["id"] = id;
    token["content"] = content;
    added.push_back(token);
  }
  const nlohmann::json all = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "▁"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}},
          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", merges}}}};
  return Tokenizer::from_json(all.dump());
}

/// Byte-level BPE, trained on a few texts with JSON among them.
inline Tokenizer byte_level_tokenizer() {
  const std::vector<std::string_view> texts{
      "Lily and Tom sat on the mat. 한국어 글 한글 한국어 글",
      R"({"name": "Lily", "age": 3, "tags": ["a", "b"], "ok": true, "no": null})",
      R"({"name":"Tom","age":41,"tags":[],"ok":false,"nested":{"name":"x"}})",
      R"([{"a": 1.5}, {"a": -20}, {"b": "x\ny"}])"};
  TokenizerTraining options;
  options.vocab_size = 400;
  options.min_frequency = 1;
  return train_tokenizer(std::span<const std::string_view>(texts), options);
}

}  // namespace heed::test
