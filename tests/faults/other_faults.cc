// Fault table, lines 92, 95, 96, 99 and 101 to 106: caches, texts that multiply, indexes, adapters,
// templates and audio.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include "base/file.h"
#include "faults/server_process.h"
#include "support/budget.h"

namespace heed::test {
namespace {

Run tiny_training(Bench& bench, const std::string& out) {
  return one_block_training(bench, "lm", lines_about_cats(bench),
                            {"--batch", "2", "--steps", "1", "--out", out});
}

void stale_temporaries(Bench& bench) {
  bench.accepted(tiny_training(bench, bench.path("run")));
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::directory_iterator(bench.path("cache") / "heed")) {
    shard = entry.path();
  }
  bench.expect(!shard.empty(), "there is a cache");
  const std::string stale = shard.native() + ".tmp.1234.1";
  const std::string fresh = shard.native() + ".tmp.1234.2";
  std::ofstream(stale) << "half";
  std::ofstream(fresh) << "half";
  const timeval old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  utimes(stale.c_str(), old);
  bench.accepted(tiny_training(bench, bench.path("again")));
  bench.expect(!std::filesystem::exists(stale), "an old temporary is removed");
  bench.expect(std::filesystem::exists(fresh), "one that may be in use stays");
  bench.expect(read_file(bench.path("run") / "model" / "model.safetensors") ==
                   read_file(bench.path("again") / "model" / "model.safetensors"),
               "and neither is trained on");
}

std::string lm_with(Bench& bench, const std::string& file, const std::string& content) {
  const std::filesystem::path copy = bench.path("lm" + file.substr(0, 4));
  std::filesystem::remove_all(copy);
  std::filesystem::copy(small_models() / "lm", copy, std::filesystem::copy_options::recursive);
  std::ofstream(copy / file, std::ios::binary) << content;
  return copy;
}

/// Ends by itself, with a clear error or fine, and little memory.
void bounded(Bench& bench, const Run& run, const std::string& what, bool refused) {
  const Outcome outcome = run_program(run);
  const bool right =
      outcome.signal == 0 && outcome.cpu_seconds < 20 && outcome.peak_bytes < (int64_t{1} << 30) &&
      (refused ? outcome.code != 0 && outcome.err.starts_with("heed: ") : outcome.code == 0);
  bench.expect(right, fmt::format("{}: code {}, signal {}, {:.1f} s, {} MB: {}", what, outcome.code,
                                  outcome.signal, outcome.cpu_seconds, outcome.peak_bytes >> 20,
                                  outcome.err.substr(0, 200)));
}

void multiplied_text(Bench& bench) {
  std::string steps;
  for (int i = 0; i < 12; ++i) {
    steps +=
        fmt::format(R"({}{{"type":"Replace","pattern":{{"String":"a"}},"content":"aaaaaaaaaa"}})",
                    i ? "," : "");
  }
  const std::string file =
      bench.file("tokenizer.json", R"({"normalizer":{"type":"Sequence","normalizers":[)" + steps +
                                       R"(]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  Run tokenize{.arguments = {"tokenize", file}, .input = std::string(1000, 'a') + "\n"};
  bench.refused(tokenize, {"tokenizer.json", "normalizers"}, 3);
  const std::string decoders = bench.file(
      "decoders/tokenizer.json", R"({"decoder":{"type":"Sequence","decoders":[)" + steps +
                                     R"(]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  Run decode{.arguments = {"tokenize", decoders, "--decode"}, .input = "0 0 0 0\n"};
  bench.refused(decode, {"tokenizer.json", "decoders"}, 3);
  std::string schema = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 30; ++i) {
    schema += fmt::format(R"("d{0}":{{"type":"array","prefixItems":[{{"$ref":"#/$defs/d{1}"}},)"
                          R"({{"$ref":"#/$defs/d{1}"}}]}},)",
                          i, i + 1);
  }
  schema += R"("d30":{"const":"x"}}})";
  bounded(bench,
          {.arguments = {"generate", small_models() / "lm", "--prompt", "a", "--max-tokens", "4",
                         "--json-schema", bench.file("schema.json", schema)}},
          "a schema of 2^30 values", false);
}

void templates(Bench& bench) {
  const auto chat = [&](const std::string& text, const std::string& what) {
    const std::string model = lm_with(bench, "chat_template.jinja", text);
    bounded(bench,
            {.arguments = {"generate", model, "--chat", "--prompt", "a", "--max-tokens", "1"}},
            what, true);
  };
  chat("{% for i in range(1000000000) %}x{% endfor %}", "a loop of 10^9");
  chat("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "endless recursion");
  chat(
      "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}"
      "{% endfor %}{{ ns.s }}",
      "a text that doubles 60 times");
  chat("{% include '/etc/passwd' %}", "a file from outside");
  chat("{{ ''.__class__.__mro__ }}", "the interpreter's own objects");
}

/// Four times the text takes at most about four times as long.
void long_runs(Bench& bench) {
  const std::string words =
      bench.file("tokenizer.json", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  bench.refused({.arguments = {"tokenize", words}, .input = std::string(size_t{70} << 20, 'a')},
                {"stdin", "line 1"}, 3, int64_t{140} << 20);
  std::string pieces = little_endian(6, 4);  // the longest of them
  const auto add = [&](const std::string& piece, float score) {
    pieces.append(reinterpret_cast<const char*>(&score), sizeof(score));
    pieces += little_endian(piece.size(), 4) + piece;
  };
  add("<unk>", 0);
  add("\n<s>\n", 0);
  add("\n</s>\n", 0);
  for (int i = 0; i < 256; ++i) {
    add(fmt::format("<0x{:02X}>", i), 0);
  }
  add(" ", -1);
  add("  ", -2);
  add("    ", -3);
  add("a", -4);
  add("aa", -5);
  const std::string file = bench.file("tokenizer.bin", pieces);
  for (const char letter : {' ', 'a'}) {
    double seconds[2] = {};
    for (int i = 0; i < 2; ++i) {
      const size_t length = i == 0 ? 100'000 : 400'000;
      seconds[i] =
          bench.accepted({.arguments = {"tokenize", file}, .input = std::string(length, letter)})
              .cpu_seconds;
    }
    bench.expect(
        seconds[1] < 8 * seconds[0] + 0.5,
        fmt::format("run of '{}': {:.2f} s, then {:.2f} s", letter, seconds[0], seconds[1]));
  }
}

Run index_of(Bench& bench, const std::string& docs) {
  return {.arguments = {"index", docs, "--model", small_models() / "encoder", "--out",
                        bench.path("x.heed-index"), "--quiet"}};
}

std::string many_rows(int count) {
  std::string rows;
  for (int i = 0; i < count; ++i) {
    rows += fmt::format("{{\"text\":\"the lazy dog {} and the fox {}\"}}\n", i, i * i);
  }
  return rows;
}

void bad_line(Bench& bench) {
  const Outcome outcome = run_program(index_of(
      bench, bench.file("rows.jsonl", many_rows(3) + "{\"text\": nonsense\n" + many_rows(2))));
  bench.expect(outcome.code == 3 && outcome.err.find("rows.jsonl:4") != std::string::npos,
               "the bad row is named: " + outcome.err);
  const Outcome found = bench.accepted(
      {.arguments = {"search", bench.path("x.heed-index"), "dog", "--mode", "lexical", "--json"}});
  bench.expect(std::count(found.out.begin(), found.out.end(), '{') == 1 + 5,
               "the others are there");
}

void bad_index(Bench& bench) {
  bench.accepted(index_of(bench, bench.file("rows.jsonl", many_rows(200))));
  const std::string whole = read_file(bench.path("x.heed-index"));
  const auto refused = [&](const std::string& name, const std::string& content) {
    bench.refused({"search", bench.file(name, content), "dog"}, {name}, 3,
                  static_cast<int64_t>(content.size()));
  };
  refused("text.heed-index", "no index at all");
  refused("empty.heed-index", "");
  refused("half.heed-index", whole.substr(0, whole.size() / 2));
  refused("sqlite.heed-index", "SQLite format 3" + std::string(5000, '\0'));
  for (const size_t part : {3, 5, 7}) {
    std::string changed = whole;
    changed[whole.size() / 8 * part] = static_cast<char>(changed[whole.size() / 8 * part] ^ 1);
    refused(fmt::format("flip{}.heed-index", part), changed);
  }
  // A journal that waits forever, and one that makes SQLite delete the file it names.
  const std::string index = bench.file("journal.heed-index", whole);
  const std::string journal = index + "-journal";
  const std::string victim = bench.file("victim", "thesis");
  mkfifo(journal.c_str(), 0600);
  bench.refused({"search", index, "dog"}, {journal, "is not a regular file"}, 3);
  std::filesystem::remove(journal);
  const std::string magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  bench.file("journal.heed-index-journal", magic + std::string(504, '\0') + victim + magic);
  bench.refused({"search", index, "dog"}, {journal, "is no journal of heed's"}, 3);
  bench.expect(std::filesystem::exists(victim), "the file that a journal names is still there");
  // An index under a link to nothing yet, and one without a name.
  const std::string link = bench.path("link.heed-index");
  std::filesystem::create_symlink("target.heed-index", link);
  const std::string document = bench.file("dog.txt", "the lazy dog");
  const auto into = [&](const std::string& out) {
    return Run{.arguments = {"index", document, "--model", small_models() / "encoder", "--out", out,
                             "--quiet"}};
  };
  bench.accepted(into(link));
  bench.expect(std::filesystem::is_symlink(link), "the link is still a link");
  bench.refused(into(""), {"out"}, 2);
  bench.refused(into(bench.path("no") / "x.heed-index"),
                {bench.path("no") / "x.heed-index", "cannot be written"}, 1);
}

void killed_index(Bench& bench) {
  const std::string rows = bench.file("rows.jsonl", many_rows(1500));
  const std::string out = bench.path("x.heed-index");
  for (int i = 1; i <= 6; ++i) {
    Run run = index_of(bench, rows);
    run.kill_after = 0.05 * i;
    run.kill_signal = SIGKILL;
    run_program(run);
  }
  bench.accepted(index_of(bench, rows));
  const auto all = [&](const std::string& index) {
    return bench
        .accepted({.arguments = {"search", index, "lazy", "--mode", "lexical", "--top-k", "5000",
                                 "--json"}})
        .out;
  };
  const std::string found = all(out);
  bench.expect(std::count(found.begin(), found.end(), '{') == 1501, "nothing is lost or doubled");
}

void odd_documents(Bench& bench) {
  bench.file("docs/binary.txt", std::string("a\0b\x01\x02", 5) + std::string(1000, '\0'));
  bench.file("docs/empty.txt", "");
  bench.file("docs/good.txt", "the lazy dog sleeps.");
  {
    std::ofstream huge(bench.file("docs/huge.txt", ""));
    huge.seekp(int64_t{1} << 30);
    huge << "x";
  }
  const Run run = index_of(bench, bench.path("docs"));
  const Outcome outcome = run_program(run);
  for (const char* name : {"binary.txt", "empty.txt", "huge.txt"}) {
    bench.expect(outcome.err.find(name) != std::string::npos, std::string(name) + " is named");
  }
  const bool small = kSanitized || outcome.peak_bytes < (int64_t{300} << 20);
  bench.expect(outcome.code == 3 && small,
               fmt::format("code {}, {} MB", outcome.code, outcome.peak_bytes >> 20));
  const Outcome found = bench.accepted(
      {.arguments = {"search", bench.path("x.heed-index"), "sleeps", "--mode", "lexical"}});
  bench.expect(found.out.find("good.txt") != std::string::npos, "the rest goes on");
}

void adapters(Bench& bench) {
  bench.file("adapter/adapter_config.json",
             R"({"peft_type":"LORA","base_model_name_or_path":"absent","r":4})");
  bench.file("adapter/adapter_model.safetensors", safetensors("{}"));
  bench.refused({"info", bench.path("adapter")}, {"adapter"});
  // One that was trained for a llama: other shapes, and other layers.
  const std::string adapter = golden("lora/llama/final");
  for (const char* other : {"qwen3", "gpt2_lm"}) {
    bench.refused({"generate", bench.model(other), "--adapter", adapter, "--prompt", "a",
                   "--max-tokens", "1"},
                  {adapter});
  }
}

/// The head of a WAV of 16 bits at 8 kHz.
std::string wav_head(uint64_t data_bytes) {
  return "RIFF" + little_endian(data_bytes + 36, 4) + "WAVEfmt " + little_endian(16, 4) +
         little_endian(1, 2) + little_endian(1, 2) + little_endian(8000, 4) +
         little_endian(16000, 4) + little_endian(2, 2) + little_endian(16, 2) + "data" +
         little_endian(data_bytes, 4);
}

/// The second of four recordings is missing, the last one is no sound.
void bad_recordings(Bench& bench) {
  const std::string good = bench.file("good.wav", wav_head(32000) + std::string(32000, '\1'));
  const std::string missing = bench.path("missing.wav"), bad = bench.file("bad.wav", "no sound");
  const Outcome outcome = run_program(
      {.arguments = {"transcribe", small_models() / "speech", good, missing, good, bad, "--json"}});
  bench.expect(outcome.code == 3 && outcome.err.find(missing) != std::string::npos &&
                   outcome.err.find(bad) != std::string::npos,
               "the bad recordings are named: " + outcome.err);
  bench.expect(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 2,
               "the others are transcribed: " + outcome.out);
}

void audio(Bench& bench) {
  const std::string model = small_models() / "speech";
  const auto refused = [&](const std::string& name, const std::string& content,
                           const std::string& word) {
    bench.refused({"transcribe", model, bench.file(name, content)}, {name, word});
  };
  refused("text.wav", "no audio at all", "is no audio that can be read");
  refused("empty.wav", "", "is no audio that can be read");
  // A header that promises four gigabytes of samples.
  refused("long.wav", wav_head(0xFFFFFFFF).replace(4, 4, "\xff\xff\xff\xff"), "is too short");
  refused("cut.flac", std::string("fLaC\0\0\0\x22", 8) + std::string(10, '\x7f'),
          "is no audio that can be read");
  // Text that libmpg123 has remarks on.
  refused("cut.mp3", "ID3\x03" + std::string(6, '\0') + "\xff\xfb\x90" + std::string(3000, 'x'),
          "is no audio that can be read");

  // Silence of a minute and of seven, beyond what is kept of the first reading (five minutes).
  const auto peak_of = [&](uint64_t minutes) {
    const uint64_t bytes = minutes * 60 * 16000;
    const std::string file = bench.file(fmt::format("{}.wav", minutes), wav_head(bytes));
    std::filesystem::resize_file(file, 44 + bytes);
    return bench.accepted({.arguments = {"transcribe", model, file, "--timestamps"}}).peak_bytes;
  };
  const int64_t minute = peak_of(1);
  const int64_t many = peak_of(7);
  bench.expect(kSanitized || many < minute + (int64_t{8} << 20),
               fmt::format("7 minutes take {} bytes, one {}", many, minute));
}

}  // namespace

std::vector<Fault> other_faults() {
  return {
      {92, "temporaries of killed runs", stale_temporaries},
      {95, "normalizers and schemas that multiply text", multiplied_text},
      {96, "run of one character or of spaces, by score", long_runs},
      {99, "one bad line or file among many",
       [](Bench& bench) {
         bad_line(bench);
         bad_recordings(bench);
       }},
      {101, "foreign, truncated or altered index", bad_index},
      {102, "indexing killed", killed_index},
      {103, "binary, empty or huge document", odd_documents},
      {104, "adapter without its model, or of another", adapters},
      {105, "template that loops, recurses or reads outside", templates},
      {106, "malformed or endless audio", audio},
  };
}

}  // namespace heed::test
