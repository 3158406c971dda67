#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <functional>

#include "heed/runtime.h"
#include "heed/text.h"
#include "support/budget.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

/// A byte-level BPE without merges, with room for changes.
std::string bpe_json(const std::string& vocabulary, const std::string& merges,
                     const std::string& added = "") {
  return R"({"added_tokens":[)" + added +
         R"(],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
           "decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
         vocabulary + R"(},"merges":[)" + merges + "]}}";
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

std::string refused(const std::string& json) {
  return message_of([&] { Tokenizer::from_json(json, "tokenizer.json"); });
}

TEST(Faults, F32DeepNesting) {
  std::string deep(100'000, '[');
  EXPECT_NE(refused(deep).find("tokenizer.json"), std::string::npos);
  std::string sequences;
  for (int i = 0; i < 100'000; ++i) {
    sequences += R"({"type":"Sequence","normalizers":[)";
  }
  refused(R"({"model":{"type":"BPE","vocab":{},"merges":[]},"normalizer":)" + sequences);
}

TEST(Faults, F33MergeOfAnAbsentToken) {
  const std::string message = refused(bpe_json(R"("a":0,"b":1)", R"("a b")"));
  EXPECT_NE(message.find("merges[0]"), std::string::npos) << message;
  EXPECT_NE(message.find("'ab'"), std::string::npos) << message;
  refused(bpe_json(R"("a":0,"b":1,"ab":2)", R"("a c")"));
  refused(bpe_json(R"("a":0,"b":1,"ab":2)", R"("a b c")"));
  refused(bpe_json(R"("a":0,"b":1,"ab":2)", R"(["a"])"));
  refused(bpe_json(R"("a":0,"b":1,"ab":2)", "7"));
}

TEST(Faults, F34Ids) {
  refused(bpe_json(R"("a":0,"b":0)", ""));
  refused(bpe_json(R"("a":0,"b":-1)", ""));
  refused(bpe_json(R"("a":0,"b":2147483648)", ""));
  refused(bpe_json(R"("a":0,"b":18446744073709551615)", ""));
  refused(bpe_json(R"("a":0,"b":1000000)", ""));
  refused(bpe_json(R"("a":0,"b":1.5)", ""));
  refused(bpe_json(R"("a":0,"b":"1")", ""));
  refused(bpe_json(R"("a":0,"a":1)", ""));
  refused(bpe_json(R"("a":0)", "", R"({"id":0,"content":"b"})"));
  refused(bpe_json(R"("a":0)", "", R"({"id":-4,"content":"b"})"));
  refused(bpe_json(R"("a":0)", "", R"({"id":1,"content":"b"},{"id":1,"content":"c"})"));
  refused(R"({"model":{"type":"Unigram","unk_id":5,"vocab":[["a",-1.0]]}})");
  refused(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
             "post_processor":{"type":"BertProcessing","sep":["x",7],"cls":["y",0]}})");
  const Tokenizer tokenizer = Tokenizer::from_json(bpe_json(R"("a":0,"b":1)", ""));
  for (const int32_t id : {-1, 2, 1 << 30}) {
    const std::vector<TokenId> ids{0, id};
    EXPECT_ERROR(tokenizer.decode(ids), "is outside the vocabulary of 2 tokens") << id;
  }
}

TEST(Faults, F36CatastrophicRegexIsBounded) {
  const auto with = [](const std::string& pattern) {
    return R"({"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":")" +
           pattern + R"("}},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
  };
  for (const std::string pattern : {"(a+)+$", "(a|a)*b", "(a*)*b", "(.*)*x", "a*a*a*a*a*b"}) {
    const Tokenizer tokenizer = Tokenizer::from_json(with(pattern));
    const double seconds = test::cpu_seconds([&] {
      try {
        tokenizer.encode_ids(std::string(20'000, 'a') + "!");
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data);
      }
    });
    EXPECT_LT(seconds, test::budget(20)) << pattern;
  }
  refused(with("(unclosed"));
  refused(with(std::string(100'000, 'a')));
}

TEST(Faults, F37EmptyTokensTerminate) {
  const auto ids = [](const std::string& json) {
    return Tokenizer::from_json(json).encode_ids("aab a", false);
  };
  ids(bpe_json(R"("":0,"a":1,"b":2,"Ġ":3)", R"(["","a"],["a",""])",
               R"({"id":0,"content":"","special":true})"));
  EXPECT_EQ(ids(R"({"model":{"type":"WordPiece","unk_token":"u","vocab":{"u":0,"":1,"##":2,"a":3}},
                   "pre_tokenizer":{"type":"WhitespaceSplit"}})"),
            (std::vector<TokenId>{0, 3}));
  ids(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["u",0.0],["",5.0],["a",-1.0]]}})");
  ids(R"({"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"":1}}})");
  for (const std::string pattern : {R"({"Regex":""})", R"({"Regex":"x*"})", R"({"String":""})"}) {
    ids(R"({"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":)" + pattern +
        R"(},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
    ids(R"({"normalizer":{"type":"Replace","content":"y","pattern":)" + pattern +
        R"(},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  }
  refused(R"({"pre_tokenizer":{"type":"Metaspace","replacement":""},
             "model":{"type":"BPE","vocab":{},"merges":[]}})");
}

/// a, aa, aaaa, …: the vocabulary in which a run of letters merges most.
std::string doubling_json(const std::string& letter) {
  std::string vocabulary = "\"" + letter + "\":0";
  std::string merges;
  std::string token = letter;
  for (int i = 1; i < 8; ++i) {
    merges += (merges.empty() ? "[\"" : ",[\"") + token + "\",\"" + token + "\"]";
    token += token;
    vocabulary += ",\"" + token + "\":" + std::to_string(i);
  }
  return R"({"model":{"type":"BPE","vocab":{)" + vocabulary + R"(},"merges":[)" + merges + "]}}";
}

TEST(Faults, F38LongRunsAreNearLinear) {
  const std::vector<std::string> tokenizers = {
      doubling_json("a"),
      R"({"pre_tokenizer":{"type":"Metaspace"},"model":{"type":"Unigram","unk_id":0,
         "vocab":[["u",0.0],["a",-2.0],["aa",-3.0],["aaaa",-4.0]]}})",
      R"({"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece",
         "unk_token":"u","max_input_chars_per_word":100000000,
         "vocab":{"u":0,"a":1,"##a":2,"##aaaa":3}}})"};
  for (const std::string& json : tokenizers) {
    const Tokenizer tokenizer = Tokenizer::from_json(json);
    const std::string run(1 << 20, 'a');
    EXPECT_LT(test::cpu_seconds([&] { EXPECT_GT(tokenizer.encode_ids(run, false).size(), 1000u); }),
              test::budget(5));
    EXPECT_LT(test::cpu_seconds([&] { tokenizer.encode(run, false); }), test::budget(10));
  }
}

TEST(Faults, F38Gpt2OnRuns) {
  HEED_NEEDS_SHARED("tokenizers/gpt2.vocab.json");
  const Tokenizer gpt2 = Tokenizer::load(test::shared_data("tokenizers/gpt2.vocab.json"));
  const std::string run(1 << 20, 'a');
  EXPECT_LT(test::cpu_seconds([&] { EXPECT_EQ(gpt2.decode(gpt2.encode_ids(run)), run); }),
            test::budget(5));
  std::string hangul;
  for (int i = 0; i < 300'000; ++i) {
    hangul += i % 3 == 0 ? "가" : "나";
  }
  EXPECT_LT(test::cpu_seconds([&] { EXPECT_EQ(gpt2.decode(gpt2.encode_ids(hangul)), hangul); }),
            test::budget(5));
  const std::string spaces(1 << 20, ' ');
  EXPECT_LT(test::cpu_seconds([&] { EXPECT_EQ(gpt2.decode(gpt2.encode_ids(spaces)), spaces); }),
            test::budget(5));
}

TEST(Faults, F39OddBytesHaveADefinedResult) {
  const std::vector<std::string_view> texts{std::string_view("a\xFF\xC3(\xE2\x82 b")};
  TokenizerTraining training;
  training.vocab_size = 257;
  const Tokenizer bytes = train_tokenizer(texts, training);
  const std::vector<std::string> odd = {std::string("\0\0a\0", 4),
                                        "\xEF\xBB\xBFtext",
                                        "a\r\nb\r",
                                        "\xFF\xFE\xC0\x80\xED\xA0\x80",
                                        "caf\xC3",
                                        "\xE2\x82",
                                        "\xF0\x9F\xA6"};
  for (const std::string& text : odd) {
    EXPECT_EQ(bytes.decode(bytes.encode_ids(text)), text);
    EXPECT_EQ(bytes.decode(bytes.encode(text).ids), text);
  }
  training.kind = TokenizerKind::character;
  const Tokenizer characters = train_tokenizer(texts, training);
  EXPECT_EQ(characters.encode_ids("a\xFF", false),
            (std::vector<TokenId>{*characters.token_to_id("a"), *characters.special().unk}));
  EXPECT_EQ(characters.encode("a\xFF", false).offsets[1], (TextSpan{1, 2}));
}

TEST(Faults, WrongFiles) {
  const test::TemporaryFolder folder;
  const auto loads = [&](const std::string& name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    return message_of([&] { Tokenizer::load(folder / name); });
  };
  loads("tokenizer.json", "{");
  loads("tokenizer.json", "[]");
  loads("tokenizer.json", R"({"model":{"type":"Magic","vocab":{}}})");
  loads("tokenizer.json", R"({"model":{"type":"BPE","vocab":[],"merges":[]}})");
  loads("vocab.json", R"({"a":0})");
  loads("vocab.txt", "");
  loads("vocab.txt", "a\n\xFF\n");
  loads("x.model", "nonsense");
  loads("x.model", std::string("\x0A\xFF\xFF\xFF\xFF\x0F", 6));
  loads("x.bin", "");
  loads("x.bin", std::string("\x07\0\0\0\0\0\0\0\xFF\xFF\xFF\x7F", 12));
  loads("x.gguf", "GGUF");
  loads("x.dat", "?");
  message_of([&] { Tokenizer::load(folder / "absent.json"); });
  const test::TemporaryFolder empty;
  message_of([&] { Tokenizer::load(empty.path()); });
  message_of([&] { Tokenizer::load("/dev/zero"); });
}

}  // namespace
}  // namespace heed
