#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "heed/text.h"
#include "support/data.h"

namespace heed {
namespace {

using test::shared_data;

std::vector<nlohmann::json> expected_lines() {
  std::ifstream in(shared_data("tokenizers/expected.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

/// Every text of expected.jsonl: ids by the quick and the full path, and offsets within the text.
void check_expected(const std::string& name, const std::string& file) {
  const Tokenizer tokenizer = Tokenizer::load(shared_data("tokenizers/" + file));
  for (const auto& line : expected_lines()) {
    const auto text = line["text"].get<std::string>();
    const auto ids = line[name].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.encode_ids(text, false), ids) << text;
    const Encoding full = tokenizer.encode(text, false);
    EXPECT_EQ(full.ids, ids) << text;
    int64_t last = 0;
    for (const TextSpan& span : full.offsets) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(span.end, static_cast<int64_t>(text.size()));
      EXPECT_GE(span.end, last) << text;
      last = span.end;
    }
  }
}

TEST(Reference, Gpt2) {
  HEED_NEEDS_SHARED("tokenizers/expected.jsonl");
  check_expected("gpt2", "gpt2.vocab.json");
}

TEST(Reference, BertUncased) {
  HEED_NEEDS_SHARED("tokenizers/expected.jsonl");
  check_expected("bert-base-uncased", "bert-base-uncased.vocab.txt");
}

TEST(Reference, SentencePieceModels) {
  HEED_NEEDS_SHARED("tokenizers/expected.jsonl");
  for (const std::string name : {"llama2", "unigram-1k", "bytefallback-2k", "tiny-t5"}) {
    SCOPED_TRACE(name);
    check_expected(name, name + ".model");
  }
}

/// llama.cpp's cases: texts between marks, a line of ids each.
void check_llama_cpp(const std::string& name) {
  const Tokenizer tokenizer = Tokenizer::load(shared_data("tokenizers/" + name + ".gguf"));
  std::ifstream in(shared_data("tokenizers/" + name + ".inp"), std::ios::binary);
  std::ifstream out(shared_data("tokenizers/" + name + ".out"));
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  const std::string mark = "\n__ggml_vocab_test__\n";
  size_t cases = 0;
  for (size_t begin = 0; begin < all.size(); ++cases) {
    const size_t end = std::min(all.find(mark, begin), all.size());
    const std::string text = all.substr(begin, end - begin);
    begin = end + mark.size();
    std::string line;
    ASSERT_TRUE(std::getline(out, line)) << "case " << cases;
    std::istringstream numbers(line);
    const std::vector<TokenId> ids((std::istream_iterator<int32_t>(numbers)), {});
    EXPECT_EQ(tokenizer.encode_ids(text, false), ids) << "case " << cases << ": " << text;
    EXPECT_EQ(tokenizer.encode(text, false).ids, ids) << "case " << cases << ": " << text;
  }
  EXPECT_GT(cases, 30u);
}

TEST(Reference, LlamaCppGpt2) {
  HEED_NEEDS_SHARED("tokenizers/gpt-2.gguf");
  check_llama_cpp("gpt-2");
}

TEST(Reference, LlamaCppSpm) {
  HEED_NEEDS_SHARED("tokenizers/llama-spm.gguf");
  check_llama_cpp("llama-spm");
}

TEST(Reference, LlamaCppBert) {
  HEED_NEEDS_SHARED("tokenizers/bert-bge.gguf");
  check_llama_cpp("bert-bge");
}

/// The same vocabulary as .model and as .gguf: libsentencepiece against heed's own engine.
TEST(Reference, GgufLlamaEqualsSentencePiece) {
  HEED_NEEDS_SHARED("tokenizers/llama-spm.gguf");
  const Tokenizer own = Tokenizer::load(shared_data("tokenizers/llama-spm.gguf"));
  for (const auto& line : expected_lines()) {
    const auto text = line["text"].get<std::string>();
    EXPECT_EQ(own.encode_ids(text, false), line["llama2"].get<std::vector<TokenId>>()) << text;
  }
  EXPECT_EQ(own.encode_ids("a").front(), 1);
}

TEST(Reference, Llama2cBin) {
  HEED_NEEDS_SHARED("stories260k/tok512.bin");
  const Tokenizer tokenizer = Tokenizer::load(shared_data("stories260k/tok512.bin"));
  EXPECT_EQ(tokenizer.vocab_size(), 512);
  EXPECT_EQ(tokenizer.special().bos, 1);
  const std::string text = "Once upon a time, \xEA\xB0\x80\n there was";
  const std::vector<TokenId> ids = tokenizer.encode_ids(text);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

/// A Marian folder: SentencePiece's pieces with ids of vocab.json, here in reverse order.
TEST(Reference, MarianFolder) {
  HEED_NEEDS_SHARED("tokenizers/unigram-1k.model");
  const auto model = shared_data("tokenizers/unigram-1k.model");
  const Tokenizer plain = Tokenizer::load(model);
  const auto count = static_cast<int32_t>(plain.vocab_size());
  nlohmann::json vocabulary;
  for (int32_t id = 0; id < count; ++id) {
    vocabulary[plain.id_to_token(id)] = count - 1 - id;
  }
  vocabulary["<pad>"] = count;
  const test::TemporaryFolder folder;
  std::filesystem::copy_file(model, folder / "source.spm");
  std::filesystem::copy_file(model, folder / "target.spm");
  std::ofstream(folder / "vocab.json") << vocabulary;
  const Tokenizer marian = Tokenizer::load(folder.path());
  const std::string text = "Hello world, this is a test.";
  std::vector<TokenId> wanted = plain.encode_ids(text, false);
  for (TokenId& id : wanted) {
    id = count - 1 - id;
  }
  wanted.push_back(*marian.special().eos);
  EXPECT_EQ(marian.encode_ids(text), wanted);
  EXPECT_EQ(marian.encode(text).ids, wanted);
  EXPECT_EQ(marian.decode(wanted), plain.decode(plain.encode_ids(text)));
  EXPECT_EQ(marian.special().pad, count);
  const test::TemporaryFolder copy;
  marian.save(copy.path());
  EXPECT_EQ(Tokenizer::load(copy.path()).encode_ids(text), wanted);
}

TEST(Reference, MiniLmFolder) {
  HEED_NEEDS_SHARED("minilm/tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::load(shared_data("minilm"));
  std::ifstream in(shared_data("minilm/ids.json"));
  for (const auto& line : nlohmann::json::parse(in)) {
    const auto text = line["text"].get<std::string>();
    EXPECT_EQ(tokenizer.encode_ids(text), line["ids"].get<std::vector<TokenId>>()) << text;
  }
  ASSERT_TRUE(tokenizer.padding());
  EXPECT_EQ(tokenizer.padding()->length, 128);
  EXPECT_EQ(tokenizer.special().cls, 101);
  EXPECT_EQ(tokenizer.special().mask, 103);
  EXPECT_EQ(tokenizer.vocab_size(), 30522);
}

}  // namespace
}  // namespace heed
