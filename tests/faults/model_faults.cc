// Fault table, lines 32 to 44: tokenizers through `heed tokenize`, configurations through `heed
// info`.
#include <fmt/format.h>

#include <fstream>

#include "faults/bench.h"

namespace heed::test {
namespace {

std::string bpe(const std::string& vocabulary, const std::string& merges = "") {
  return R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
         vocabulary + R"(},"merges":[)" + merges + "]}}";
}

void bad_tokenizer(Bench& bench, const std::string& json, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"tokenizer.json"};
  all.insert(all.end(), words.begin(), words.end());
  bench.refused({"tokenize", bench.file("tokenizer.json", json)}, all, 3,
                static_cast<int64_t>(json.size()));
}

void long_runs(Bench& bench) {
  const std::string tokenizers[] = {
      R"({"model":{"type":"BPE","vocab":{"a":0,"aa":1,"aaaa":2," ":3,"  ":4},"merges":["a a","aa aa",[" "," "]]}})",
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["u",0.0],["a",-2.0],["aa",-3.0],[" ",-2.0],["  ",-3.0]]}})",
      R"({"model":{"type":"WordPiece","unk_token":"u","vocab":{"u":0,"a":1,"##a":2," ":3}}})"};
  for (const std::string& json : tokenizers) {
    const std::string file = bench.file("tokenizer.json", json);
    for (const char letter : {'a', ' '}) {
      double seconds[2] = {};
      for (int i = 0; i < 2; ++i) {
        const size_t length = i == 0 ? 250'000 : 1'000'000;
        seconds[i] =
            bench.accepted({.arguments = {"tokenize", file}, .input = std::string(length, letter)})
                .cpu_seconds;
      }
      // Four times the text: at most eight times the work, where quadratic work would take sixteen.
      bench.expect(seconds[1] < 8 * seconds[0] + 0.5,
                   fmt::format("run of '{}': {:.2f} s, then {:.2f} s for four times as much",
                               letter, seconds[0], seconds[1]));
    }
  }
}

void bad_config(Bench& bench, const std::string& key, const std::string& value,
                const std::vector<std::string>& words) {
  std::vector<std::string> all = {"config.json"};
  all.insert(all.end(), words.begin(), words.end());
  bench.refused({"info", bench.model("gpt2_lm", {{key, value}})}, all);
}

void odd_text(Bench& bench) {
  std::string vocabulary;
  // The byte-level alphabet: printable bytes stand for themselves, the rest from U+0100 on.
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const int code = printable ? byte : next++;
    vocabulary += fmt::format("{}\"\\u{:04x}\":{}", byte == 0 ? "" : ",", code, byte);
  }
  const std::string file = bench.file("tokenizer.json", bpe(vocabulary));
  const std::string text = std::string("a\xff\xc3(", 4) + std::string("\0b", 2) +
                           "\xef\xbb\xbf"
                           "c\r";
  const Outcome ids = bench.accepted({.arguments = {"tokenize", file}, .input = text + "\n"});
  const Outcome back =
      bench.accepted({.arguments = {"tokenize", file, "--decode"}, .input = ids.out});
  bench.expect(back.out == text + "\n", "bytes that are no text survive a round trip");
}

}  // namespace

std::vector<Fault> model_faults() {
  return {
      {32, "100,000 levels of nesting",
       [](Bench& bench) { bad_tokenizer(bench, std::string(100'000, '['), {"nested"}); }},
      {33, "merge of an absent token",
       [](Bench& bench) {
         bad_tokenizer(bench, bpe(R"("a":0,"b":1)", R"("a b")"), {"merges[0]"});
       }},
      {34, "duplicate, negative or out-of-range id",
       [](Bench& bench) {
         bad_tokenizer(bench, bpe(R"("a":0,"b":0)"), {"model.vocab", "'b'", "the same id 0"});
         bad_tokenizer(bench, bpe(R"("a":0,"b":-1)"), {"model.vocab.b is -1"});
         bad_tokenizer(bench, bpe(R"("a":0,"b":99999999999)"), {"model.vocab.b is 99999999999"});
       }},
      {35, "vocabulary larger than the embedding",
       [](Bench& bench) {
         const std::string folder = bench.model("gpt2_lm");
         std::string vocabulary = "\"t0\":0";
         for (int i = 1; i < 100; ++i) {
           vocabulary += fmt::format(",\"t{}\":{}", i, i);
         }
         std::ofstream(folder + "/tokenizer.json") << bpe(vocabulary);
         bench.refused({"generate", folder, "--prompt", "t0"}, {"tokenizer", "37"});
       }},
      {36, "catastrophic regular expression",
       [](Bench& bench) {
         const std::string file = bench.file(
             "tokenizer.json",
             R"({"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"(a+)+$"}},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
         const Outcome outcome = run_program(
             {.arguments = {"tokenize", file}, .input = std::string(20'000, 'a') + "!\n"});
         const bool told =
             outcome.code == 3 && outcome.err.find("tokenizer.json") != std::string::npos;
         bench.expect(
             (outcome.code == 0 || told) && outcome.cpu_seconds < 20,
             fmt::format("ends in bounded time: code {}, signal {}, {:.1f} s: {}", outcome.code,
                         outcome.signal, outcome.cpu_seconds, outcome.err.substr(0, 200)));
       }},
      {37, "empty token",
       [](Bench& bench) {
         const std::string file = bench.file(
             "tokenizer.json",
             R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["u",0.0],["",5.0],["a",-1.0]]}})");
         bench.accepted({.arguments = {"tokenize", file}, .input = "aab a\n"});
       }},
      {38, "1 MB of one character", long_runs},
      {39, "invalid UTF-8, NUL, BOM, CR", odd_text},
      {40, "heads 0 or not dividing the hidden size",
       [](Bench& bench) {
         bad_config(bench, "n_head", "0", {"n_head"});
         bad_config(bench, "n_head", "5", {"n_head", "5"});
       }},
      {41, "strings, NaN, 1e18, negatives",
       [](Bench& bench) {
         for (const char* value : {"\"abc\"", "1e18", "-4", "2.5", "true", "[1]"}) {
           bad_config(bench, "n_layer", value, {"n_layer"});
         }
         bad_config(bench, "layer_norm_epsilon", "NaN", {"JSON"});
       }},
      {42, "size estimate beyond memory",
       [](Bench& bench) { bad_config(bench, "n_embd", "16777215", {"n_embd"}); }},
      {43, "epsilon or theta not above 0",
       [](Bench& bench) {
         bad_config(bench, "layer_norm_epsilon", "0.0", {"layer_norm_epsilon"});
         bench.refused({"info", bench.model("llama_gqa", {{"rms_norm_eps", "-1.0"}})},
                       {"config.json", "rms_norm_eps"});
       }},
      {44, "unknown architecture",
       [](Bench& bench) {
         bad_config(bench, "model_type", "\"mamba\"", {"mamba", "gpt2", "llama"});
       }},
  };
}

}  // namespace heed::test
