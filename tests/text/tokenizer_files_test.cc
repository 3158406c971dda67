// Tokenizers in every kind of file: what the fields of a file decide, and every reason to refuse
// one.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/text.h"
#include "io/gguf.h"
#include "support/data.h"
#include "support/error.h"
#include "text/chat_template.h"
#include "text/gguf_vocabulary.h"
#include "text/legacy_files.h"
#include "text/spm.h"
#include "text/tokenizer_impl.h"
#include "wire.h"

namespace heed::test {
namespace {

using Ids = std::vector<TokenId>;

enum : uint32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused };

/// <unk>, <s>, </s>, the words of "ab" and what the trainer was told.
std::string small_model(const std::string& trainer, const std::string& normalizer = "") {
  return piece("<unk>", 0, kUnknown) + piece("<s>", 0, kControl) + piece("</s>", 0, kControl) +
         piece("▁a", -1, kNormal) + piece("b", -2, kNormal) + piece("▁", -3, kNormal) +
         piece("a", -4, kNormal) + piece("▁ab", -5, kUnused) + bytes(2, trainer) +
         bytes(3, normalizer);
}

class TokenizerFiles : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  Tokenizer load(const std::string& name = "") const {
    return Tokenizer::load(name.empty() ? folder_.path() : folder_ / name);
  }
  void refused(const std::string& name, const std::string& why) const {
    EXPECT_ERROR(Tokenizer::load(folder_ / name), why) << name;
  }
  TemporaryFolder folder_;
};

TEST_F(TokenizerFiles, SentencePieceFieldsThatAreNotKnownAreSkipped) {
  // Fields of every wire type in every message: 64 bits (1), bytes (2), 32 bits (5) and a number.
  const std::string foreign =
      std::string("\x79", 1) + std::string(8, 'x') + bytes(14, "x") + number(13, 7);
  const std::string model = bytes(1, bytes(1, "<unk>") + number(3, kUnknown) + foreign) +
                            piece("▁a", -1, kNormal) + bytes(2, foreign) + bytes(3, foreign) +
                            foreign;
  const text::SpmVocabulary v = text::read_sentencepiece(model, "m");
  ASSERT_EQ(v.pieces.size(), 2u);
  EXPECT_EQ(v.unk, 0);
  EXPECT_EQ(v.bos, 1);              // the trainer's default
  EXPECT_FALSE(v.eos.has_value());  // 2 is no piece
  EXPECT_FALSE(v.pad.has_value());  // none unless the trainer was told
}

TEST_F(TokenizerFiles, SentencePieceRefusals) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "has no pieces"},
      {std::string("\x0B", 1), "(wire type 3)"},
      {std::string(10, '\xff') + "\x01", "(a number without end)"},
      {std::string("\x0a\x20", 2), "a field has 32 bytes, 0 are left"},
      {piece("a", 0, 0), "a piece has the type 0"},
      {piece("a", 0, 7), "a piece has the type 7"},
      {piece("\xff", 0, kNormal), "is not UTF-8"},
      {piece("a", 0, kNormal) + bytes(2, number(3, 3)), "a SentencePiece model of type 3"},
  };
  for (const auto& [model, why] : cases) {
    EXPECT_ERROR(text::read_sentencepiece(model, "m"), why);
  }
}

TEST_F(TokenizerFiles, WhatGoesAroundATextDependsOnTheFolder) {
  // The [CLS] that is a piece like others says nothing.
  write("tokenizer.model", small_model(number(3, 1)) + piece("[CLS]", -9, kNormal));
  const std::tuple<const char*, Ids> cases[] = {
      {R"({})", {1, 3}},
      {R"({"tokenizer_class":"LlamaTokenizer"})", {1, 3}},
      {R"({"tokenizer_class":"T5Tokenizer"})", {3, 2}},
      {R"({"tokenizer_class":"MT5Tokenizer"})", {3, 2}},
      {R"({"add_bos_token":false,"add_eos_token":true})", {3, 2}},
      {R"({"add_bos_token":false})", {3}},
  };
  for (const auto& [config, ids] : cases) {
    write("tokenizer_config.json", config);
    EXPECT_EQ(load().encode_ids("a"), ids) << config;
  }
  // Without <s>, </s> goes behind a text; without either, nothing does.
  write("tokenizer.model", small_model(number(3, 1) + number(41, 0xffffffffU)));
  write("tokenizer_config.json", "{}");
  EXPECT_EQ(load().encode_ids("a"), (Ids{3, 2}));
  write("tokenizer.model",
        small_model(number(3, 1) + number(41, 0xffffffffU) + number(42, 0xffffffffU)));
  EXPECT_EQ(load().encode_ids("a"), (Ids{3}));
  for (const char* kind : {"XLMRobertaTokenizer", "CamembertTokenizer", "MBartTokenizer",
                           "M2M100Tokenizer", "NllbTokenizer", "PegasusTokenizer"}) {
    write("tokenizer_config.json", std::string(R"({"tokenizer_class":")") + kind + "\"}");
    EXPECT_ERROR(load(), "numbers its tokens in another way") << kind;
  }
}

TEST_F(TokenizerFiles, SentencePieceDecodesAddedTokensBetweenItsOwn) {
  write("tokenizer.model", small_model(number(3, 1)));
  write("added_tokens.json", R"({"<x>":8,"<y>":9,"a":6})");
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.decode(Ids{8, 9}), "<x> <y>");
  EXPECT_EQ(tokenizer.decode(Ids{8, 3, 9}), "<x> a <y>");
  EXPECT_EQ(tokenizer.decode(Ids{3}), "a");
  EXPECT_EQ(tokenizer.encode("a ?", false).ids, (Ids{3, 5, 0}));
}

TEST_F(TokenizerFiles, SpmDocumentFollowsTheVocabulary) {
  text::SpmVocabulary v;
  v.file = "m";
  v.pieces = {{"a", 0, text::SpmVocabulary::Type::normal},
              {"b", -1, text::SpmVocabulary::Type::user_defined}};
  v.prefix_space = false;
  nlohmann::json document = text::spm_document(v, true);
  EXPECT_TRUE(document["model"]["unk_token"].is_null());
  EXPECT_EQ(document["normalizer"]["normalizers"].size(), 1u);
  EXPECT_EQ(document["decoder"]["decoders"].size(), 3u);
  EXPECT_EQ(document["post_processor"]["special_tokens"], nlohmann::json::object());
  v.unigram = true;
  document = text::spm_document(v, true);
  EXPECT_TRUE(document["model"]["unk_id"].is_null());
  EXPECT_TRUE(document["normalizer"].is_null());
  EXPECT_EQ(document["pre_tokenizer"]["prepend_scheme"], "never");
  v.add_bos = v.add_eos = true;  // nothing to add
  v.cls = 0;                     // [CLS] without [SEP] is no BERT
  EXPECT_EQ(text::spm_document(v, true)["post_processor"]["single"].size(), 1u);
  v.bos = 0;
  v.eos = 1;
  EXPECT_EQ(text::spm_document(v, true)["post_processor"]["single"].size(), 3u);
}

TEST_F(TokenizerFiles, VocabularyFilesAndTheirMerges) {
  write("vocab.json", R"({"a":0,"b":1,"ab":2,"<s>":3,"</s>":4,"<unk>":"five"})");
  write("merges.txt", "#version: 0.2\r\na b\r\n\r\n");
  EXPECT_ERROR(load(), "<unk>");  // an id that is no number
  write("vocab.json", R"({"a":0,"b":1,"ab":2,"<s>":3,"</s>":4})");
  EXPECT_EQ(load().encode_ids("ab"), (Ids{2}));
  for (const char* kind : {"RobertaTokenizer", "BartTokenizerFast", "LongformerTokenizer", "LED"}) {
    write("tokenizer_config.json", std::string(R"({"tokenizer_class":")") + kind + "\"}");
    EXPECT_EQ(load().encode_ids("ab"), (Ids{3, 2, 4})) << kind;
  }
  write("vocab.json", R"({"a":0,"b":1,"ab":2,"<s>":3})");  // no </s>: nothing is put around
  EXPECT_EQ(load().encode_ids("ab"), (Ids{2}));
  write("vocab.json", R"({"a":0,"b":1,"ab":2})");
  EXPECT_EQ(load().encode_ids("ab"), (Ids{2}));
  write("small.vocab.json", R"({"a":0,"b":1,"ab":2})");
  EXPECT_EQ(load("small.vocab.json").encode_ids("ab"), (Ids{2}));  // merges.txt beside it
  std::filesystem::remove(folder_ / "merges.txt");
  refused("small.vocab.json", "needs its merges beside it (small.merges.txt or merges.txt)");
  write("vocab.json", "[]");
  write("merges.txt", "");
  refused("vocab.json", "is not an object of token: id");
}

TEST_F(TokenizerFiles, VocabTxt) {
  write("vocab.txt", "[UNK]\n[CLS]\na\n##b\n");  // no [SEP]: nothing goes around a text
  EXPECT_EQ(load().encode_ids("AB"), (Ids{2, 3}));
  write("tokenizer_config.json", R"({"do_lower_case":false})");
  EXPECT_EQ(load().encode_ids("AB"), (Ids{0}));
  write("vocab.txt", "[UNK]\n[SEP]\na\n##b\nUpper\n");  // an upper-case word: cased
  EXPECT_EQ(load("vocab.txt").encode_ids("AB Upper"), (Ids{0, 4}));
  write("vocab.txt", "");
  refused("vocab.txt", "is empty; one token per line is expected");
  write("vocab.txt", "a\n\xff\n");
  refused("vocab.txt", "line 2 is not UTF-8");
  EXPECT_TRUE(text::character_document({{"a", 0}}, {})["model"]["unk_token"].is_null());
}

TEST_F(TokenizerFiles, FoldersAndForeignFiles) {
  EXPECT_ERROR(load(), "has no tokenizer");
  write("a.model", small_model(number(3, 2)));
  write("b.model", small_model(number(3, 2)));
  EXPECT_ERROR(load(), "has no tokenizer");  // which of the two?
  std::filesystem::remove(folder_ / "b.model");
  std::filesystem::create_directory(folder_ / "c.model");
  EXPECT_EQ(load().encode_ids("a", false), (Ids{3}));
  std::filesystem::create_directory(folder_ / "model");
  std::filesystem::rename(folder_ / "a.model", folder_ / "model" / "tokenizer.model");
  EXPECT_EQ(load().encode_ids("a", false), (Ids{3}));  // a run folder
  write("x.spm", small_model(number(3, 2)));
  EXPECT_EQ(load("x.spm").encode_ids("a", false), (Ids{3}));
  write("special_tokens_map.json", R"({"eos_token":{"content":"b"},"pad_token":"nowhere"})");
  write("tokenizer.model", small_model(number(3, 2)));
  EXPECT_EQ(load().special().eos, 4);
  EXPECT_FALSE(load().special().pad.has_value());
  write("notes.md", "text");
  refused("notes.md", "is no tokenizer file");
}

TEST_F(TokenizerFiles, Marian) {
  const std::string side = small_model(number(3, 1));
  write("source.spm", side);
  write("vocab.json", R"({"</s>":0,"<unk>":1,"▁a":2,">>fra<<":3,">>x":4,"<pad>":5})");
  write("merges.txt", "");
  EXPECT_EQ(load().encode_ids("a", false), (Ids{}));  // without target.spm: GPT-2's kind of file
  write("target.spm", side);
  EXPECT_EQ(load().encode_ids(">>fra<< a b"), (Ids{3, 2, 1, 1, 0}));
  EXPECT_EQ(load().decode(Ids{2, 4}), "a \u2047 ");
  write("tokenizer.json", R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}})");
  EXPECT_EQ(load().vocab_size(), 1);  // a tokenizer.json goes before the two sides
  std::filesystem::remove(folder_ / "tokenizer.json");
  write("vocab.json", R"({"</s>":0})");
  EXPECT_ERROR(load(), "has no token <unk>");
}

TEST_F(TokenizerFiles, TruncationAndPaddingOfTokenizerJson) {
  const auto with = [](const std::string& fields) {
    return Tokenizer::from_json(R"({"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0}},)"
                                R"("pre_tokenizer":{"type":"WhitespaceSplit"},)" +
                                fields + "}");
  };
  const auto truncation = [](const std::string& strategy, const std::string& direction) {
    return R"("truncation":{"max_length":2,"strategy":")" + strategy + R"(","direction":")" +
           direction + "\"}";
  };
  using Strategy = Truncation::Strategy;
  const std::pair<const char*, Strategy> strategies[] = {{"LongestFirst", Strategy::longest_first},
                                                         {"OnlyFirst", Strategy::only_first},
                                                         {"OnlySecond", Strategy::only_second}};
  for (const auto& [name, strategy] : strategies) {
    for (const auto& [direction, side] : {std::pair("Left", Side::left), {"Right", Side::right}}) {
      const auto read = with(truncation(name, direction)).impl().truncation;
      ASSERT_TRUE(read.has_value());
      EXPECT_EQ(read->strategy, strategy) << name;
      EXPECT_EQ(read->side, side) << direction;
    }
  }
  const auto fixed =
      with(R"("padding":{"strategy":{"Fixed":4},"direction":"Left"})").impl().padding;
  EXPECT_EQ(fixed->length, 4);
  EXPECT_EQ(fixed->side, Side::left);
  const auto longest = with(R"("padding":{"strategy":"BatchLongest"})").impl().padding;
  EXPECT_FALSE(longest->length.has_value());
  EXPECT_EQ(longest->side, Side::right);
  // Merges of another kind of model are nobody's.
  EXPECT_EQ(Tokenizer::from_json(R"({"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0},)"
                                 R"("merges":["a b"]}})")
                .vocab_size(),
            1);
}

TEST_F(TokenizerFiles, Llama2c) {
  const auto entry = [](float score, const std::string& text, int32_t length = -1) {
    std::string out(8, '\0');
    const auto size = length == -1 ? static_cast<int32_t>(text.size()) : length;
    std::memcpy(out.data(), &score, 4);
    std::memcpy(out.data() + 4, &size, 4);
    return out + text;
  };
  const auto head = [](int32_t longest) {
    return std::string(reinterpret_cast<const char*>(&longest), 4);
  };
  const std::string start = entry(0, "<unk>") + entry(0, "<s>") + entry(0, "</s>");
  write("t.bin", head(6) + start + entry(0, "<0x41>") + entry(0, "<0x41)") + entry(-1, "abc de"));
  EXPECT_EQ(load("t.bin").vocab_size(), 6);
  const std::pair<std::string, std::string> cases[] = {
      {head(0), "its longest token has 0 bytes"},
      {head(65537), "its longest token has 65537 bytes"},
      {head(2) + entry(0, "abc"), "token 0 has 3 bytes, the longest 2"},
      {head(2) + entry(0, "a", -2), "token 0 has -2 bytes"},
      {head(6) + entry(0, "a", 5), "it ends inside a token"},
      {head(6) + entry(0, "a"), "has only 1 tokens"},
  };
  for (const auto& [content, why] : cases) {
    write("t.bin", content);
    refused("t.bin", why);
  }
}

GgufWriter gguf_words(const std::string& model, const std::vector<std::string>& tokens) {
  GgufWriter writer;
  writer.string("tokenizer.ggml.model", model);
  writer.strings("tokenizer.ggml.tokens", tokens);
  return writer;
}

TEST_F(TokenizerFiles, GgufByteBpe) {
  GgufWriter plain = gguf_words("gpt2", {"a", "b", "ab", "<e>", "<u>"});
  plain.strings("tokenizer.ggml.merges", {"a b"});
  plain.u32("tokenizer.ggml.eos_token_id", 3);  // no type says so, its role does
  plain.write(folder_ / "m.gguf");
  EXPECT_EQ(load("m.gguf").encode_ids("ab<e>"), (Ids{2, 3}));
  EXPECT_FALSE(load("m.gguf").special().bos.has_value());
  GgufWriter typed = gguf_words("gpt2", {"a", "b", "ab", "<e>", "<u>", "<s>"});
  typed.strings("tokenizer.ggml.merges", {"a b"});
  typed.i32s("tokenizer.ggml.token_type", {1, 1, 1, 4, 4, 3});
  typed.u32("tokenizer.ggml.eos_token_id", 3);
  typed.u32("tokenizer.ggml.bos_token_id", 5);
  typed.string("tokenizer.ggml.pre", "llama-bpe");
  typed.write(folder_ / "m.gguf");
  EXPECT_EQ(load("m.gguf").encode_ids("ab<u><e>"), (Ids{5, 2, 4, 3}));
  GgufWriter twice = gguf_words("gpt2", {"a", "a"});
  twice.strings("tokenizer.ggml.merges", {});
  twice.write(folder_ / "m.gguf");
  refused("m.gguf", "tokens 0 and 1 are both 'a'");
}

TEST_F(TokenizerFiles, GgufWordPieceAndUnigram) {
  gguf_words("bert", {"[UNK]", "[CLS]", "[]", "▁Big", "ger"}).write(folder_ / "m.gguf");
  EXPECT_EQ(load("m.gguf").encode_ids("Bigger", false), (Ids{3, 4}));  // cased: a word says so
  EXPECT_EQ(load("m.gguf").id_to_token(2), "##[]");
  gguf_words("bert", {"[UNK]", "▁big"}).write(folder_ / "m.gguf");
  EXPECT_EQ(load("m.gguf").encode_ids("BIG", false), (Ids{1}));
  GgufWriter unigram = gguf_words("t5", {"<unk>", "</s>", "▁a"});
  unigram.f32s("tokenizer.ggml.scores", {0, 0, -1});
  unigram.i32s("tokenizer.ggml.token_type", {2, 3, 1});
  unigram.i32s("tokenizer.ggml.precompiled_charsmap", {0, 0, 0, 0});
  unigram.u32("tokenizer.ggml.unknown_token_id", 0);
  unigram.u32("tokenizer.ggml.eos_token_id", 1);
  unigram.write(folder_ / "m.gguf");
  refused("m.gguf", "precompiled_charsmap says its trie has 0 bytes, of 4");
  gguf_words("rwkv", {"a"}).write(folder_ / "m.gguf");
  refused("m.gguf", "tokenizer.ggml.model 'rwkv' is not known");
}

TEST_F(TokenizerFiles, GgufKeysOfEveryKindOfTokenizer) {
  const auto written = [&](const std::string& json) {
    GgufWriter writer;
    const Tokenizer tokenizer = Tokenizer::from_json(json);
    text::add_vocabulary(writer, tokenizer, tokenizer.vocab_size());
    writer.write(folder_ / "m.gguf");
    return GgufFile(folder_ / "m.gguf");
  };
  const GgufFile unigram = written(
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.5],["</s>",0.0]]},)"
      R"("added_tokens":[{"id":2,"content":"</s>","special":true},{"id":3,"content":"+"}],)"
      R"("post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},)"
      R"({"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],"special_tokens":)"
      R"({"</s>":{"id":"</s>","ids":[2],"tokens":["</s>"]}}}})");
  EXPECT_EQ(unigram.string("tokenizer.ggml.model"), "t5");
  EXPECT_EQ(unigram.integers("tokenizer.ggml.token_type", 0, 6),
            (std::vector<int64_t>{kUnknown, kNormal, kControl, kUserDefined}));
  EXPECT_TRUE(unigram.boolean("tokenizer.ggml.add_eos_token"));
  EXPECT_FALSE(unigram.boolean("tokenizer.ggml.add_bos_token"));
  const std::string bpe = R"x("model":{"type":"BPE","vocab":{"a":0,"<0x41)":1},"merges":[]}})x";
  EXPECT_EQ(written("{" + bpe).string("tokenizer.ggml.pre"), "gpt-2");
  const std::string split = R"({"pre_tokenizer":{"type":"Split","behavior":"Isolated",)"
                            R"("pattern":{"Regex":")";
  EXPECT_EQ(written(split + R"(\\p{N}{1,3}|."}},)" + bpe).string("tokenizer.ggml.pre"),
            "llama-bpe");
  EXPECT_EQ(written(split + R"(\\p{N}|."}},)" + bpe).string("tokenizer.ggml.pre"), "qwen2");
  const GgufFile words = written(
      R"({"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
      R"("max_input_chars_per_word":9,"vocab":{"[UNK]":0,"[]":1,"##a":2}}})");
  EXPECT_EQ(words.strings("tokenizer.ggml.tokens"),
            (std::vector<std::string>{"[UNK]", "▁[]", "a"}));
  EXPECT_FALSE(words.boolean("tokenizer.ggml.add_bos_token"));
  // <s> is there, and nothing puts it in front of a text.
  const GgufFile bos =
      written(R"({"model":{"type":"BPE","vocab":{"<s>":0,"a":1},"merges":[]},"post_processor":{)"
              R"("type":"BertProcessing","sep":["a",1],"cls":["a",1]}})");
  EXPECT_FALSE(bos.boolean("tokenizer.ggml.add_bos_token"));
}

TEST_F(TokenizerFiles, ChatTemplatesOfFoldersAndFiles) {
  const auto read = [&](const std::string& name = "") {
    return text::read_chat_template(name.empty() ? folder_.path() : folder_ / name);
  };
  write("tokenizer_config.json",
        R"({"chat_template":"a","bos_token":{"content":"<s>"},"eos_token":{"lstrip":true},)"
        R"("pad_token":7})");
  write("special_tokens_map.json", R"({"bos_token":"<other>","unk_token":"<unk>"})");
  auto source = read();
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(source.templates, (Pairs{{"default", "a"}}));
  EXPECT_EQ(source.special_tokens, (Pairs{{"bos_token", "<s>"}, {"unk_token", "<unk>"}}));
  write("chat_template.json", R"({"chat_template":[{"name":"tool_use","template":"b"}]})");
  EXPECT_EQ(read().templates, (Pairs{{"tool_use", "b"}}));
  write("bare.json", R"({"bos_token":"x"})");
  EXPECT_TRUE(read("bare.json").templates.empty());
  GgufWriter writer = gguf_words("gpt2", {"<s>", "</s>"});
  writer.string("tokenizer.chat_template", "c");
  writer.strings("tokenizer.chat_templates", {"rag", "missing"});
  writer.string("tokenizer.chat_template.rag", "d");
  writer.u32("tokenizer.ggml.eos_token_id", 1);
  writer.write(folder_ / "m.gguf");
  source = read("m.gguf");
  EXPECT_EQ(source.templates, (Pairs{{"default", "c"}, {"rag", "d"}}));
  EXPECT_EQ(source.special_tokens, (Pairs{{"eos_token", "</s>"}}));
  GgufWriter bare;
  bare.string("tokenizer.chat_template", "c");
  bare.write(folder_ / "m.gguf");
  EXPECT_TRUE(read("m.gguf").special_tokens.empty());
  gguf_words("gpt2", {"a"}).write(folder_ / "m.gguf");
  EXPECT_TRUE(read("m.gguf").templates.empty());
}

}  // namespace
}  // namespace heed::test
