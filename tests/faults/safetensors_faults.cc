// Fault table, lines 1 to 18, through `heed attention`, which reads any safetensors file, and `heed
// info`.
#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/file.h"
#include "faults/server_process.h"

namespace heed::test {
namespace {

/// Refused as an input file, by name and with these words.
void bad(Bench& bench, const std::string& content, const std::vector<std::string>& words) {
  const std::string path = bench.file("bad.safetensors", content);
  std::vector<std::string> all = {"bad.safetensors"};
  all.insert(all.end(), words.begin(), words.end());
  bench.refused({"attention", "--input", path, "--output", bench.path("out.safetensors")}, all, 3,
                static_cast<int64_t>(content.size()));
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{" + entry("q", dtype, shape, offsets) + "}";
}

void headers(Bench& bench) {
  bad(bench, "", {"8"});
  bad(bench, "1234567", {"7 bytes"});
}

void header_length(Bench& bench) {
  bad(bench, std::string(8, '\xff'), {"header length"});
  bad(bench, little_endian(200'000'000, 8) + std::string(100, ' '), {"header length"});
}

void bad_json(Bench& bench) {
  bad(bench, safetensors("{\"a\xff\":1}"), {"JSON"});
  bad(bench, safetensors("{"), {"JSON"});
  bad(bench, safetensors("{} x"), {"JSON"});
  bad(bench, safetensors("nonsense"), {"header"});
}

void offsets(Bench& bench) {
  bad(bench, safetensors(one("U8", "[1]", "[1,0]"), 1), {"'q'"});
  bad(bench, safetensors(one("U8", "[1]", "[-1,0]"), 1), {"'q'", "negative"});
  bad(bench, safetensors(one("U8", "[1]", "[0,1.0]"), 1), {"'q'"});
}

void shapes(Bench& bench) {
  bad(bench, safetensors(one("F32", "[4294967296,4294967296,4294967296]", "[0,4]"), 4),
      {"'q'", "overflows"});
  bad(bench, safetensors(one("F32", "[1152921504606846975,16]", "[0,4]"), 4), {"'q'"});
}

void empty_shapes(Bench& bench) {
  const std::string path =
      bench.file("ok.safetensors", safetensors("{" + entry("a", "F32", "[]", "[0,4]") + "," +
                                                   entry("b", "F32", "[2,0]", "[4,4]") + "}",
                                               4));
  // Read without complaint; then it lacks q.
  bench.refused({"attention", "--input", path, "--output", bench.path("o.safetensors")},
                {"ok.safetensors: has no tensor 'q'"}, 3);
}

void ten_million_entries(Bench& bench) {
  std::string header = "{";
  for (int i = 0; header.size() < 60'000'000; ++i) {
    header += fmt::format("\"{}\":{{}},", i);
  }
  header.back() = '}';
  bad(bench, safetensors(header), {"more than"});
}

void shard_paths(Bench& bench) {
  for (const std::string shard : {"../outside.safetensors", "/etc/passwd", "link.safetensors"}) {
    const std::string folder = bench.model("gpt2_lm");
    std::filesystem::rename(folder + "/model.safetensors", bench.path("outside.safetensors"));
    std::filesystem::create_symlink(bench.path("outside.safetensors"),
                                    folder + "/link.safetensors");
    std::ofstream(folder + "/model.safetensors.index.json")
        << R"({"weight_map":{"transformer.wte.weight":")" + shard + "\"}}";
    bench.refused({"info", folder}, {"model.safetensors.index.json", "weight_map"});
  }
}

void shard_keys(Bench& bench) {
  const std::string folder = bench.model("gpt2_lm");
  std::filesystem::rename(folder + "/model.safetensors", folder + "/a.safetensors");
  const std::string index = folder + "/model.safetensors.index.json";
  std::ofstream(index) << R"({"weight_map":{"transformer.wte.weight":"absent.safetensors"}})";
  bench.refused({"info", folder}, {"absent.safetensors", "missing"});
  std::filesystem::copy(folder + "/a.safetensors", folder + "/b.safetensors");
  std::ofstream(index)
      << R"({"weight_map":{"transformer.wte.weight":"a.safetensors","transformer.wpe.weight":"b.safetensors"}})";
  bench.refused({"info", folder}, {"another shard"});
}

/// Stops a process as soon as it has mapped the model, cuts the file and lets it go on: there is an
/// error, or it was done with the file already; it never dies.
void truncated_while_mapped(Bench& bench) {
  int noticed = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const std::string model = bench.path("mapped" + std::to_string(attempt));
    std::filesystem::copy(small_models() / "lm", model);
    const std::string file = model + "/model.safetensors";
    Run run{.arguments = {"generate", model, "--prompt", "the", "--max-tokens", "200"}};
    run.meanwhile = [&](pid_t process) {
      const std::string maps = "/proc/" + std::to_string(process) + "/maps";
      for (int i = 0; i < 200'000; ++i) {
        std::ifstream stream(maps);
        const std::string text{std::istreambuf_iterator<char>(stream), {}};
        if (text.find(file) != std::string::npos) {
          break;
        }
        if (text.empty() && i > 0) {
          return;  // over already
        }
      }
      kill(process, SIGSTOP);
      std::filesystem::resize_file(file, 4096);
      kill(process, SIGCONT);
    };
    const Outcome outcome = run_program(run);
    const bool told = outcome.code == 3 && outcome.err.find(file) != std::string::npos;
    noticed += told ? 1 : 0;
    bench.expect(outcome.signal == 0 && (told || outcome.code == 0),
                 "code " + std::to_string(outcome.code) + ", signal " +
                     std::to_string(outcome.signal) + ": " + outcome.err.substr(0, 200));
  }
  bench.expect(noticed > 0, "a file that was cut in use is named");
}

}  // namespace

std::vector<Fault> safetensors_faults() {
  const auto files = [](std::vector<std::pair<std::string, std::vector<std::string>>> cases) {
    return [cases](Bench& bench) {
      for (const auto& [content, words] : cases) {
        bad(bench, content, words);
      }
    };
  };
  const std::string two = entry("a", "U8", "[4]", "[0,4]");
  return {
      {1, "safetensors under 8 bytes", headers},
      {2, "header length 2^64-1 or over 100 MB", header_length},
      {3, "header longer than the file",
       files({{little_endian(50, 8) + "{}", {"header length 50"}}})},
      {4, "bad UTF-8, bad JSON, trailing garbage", bad_json},
      {5, "duplicate key",
       files({{safetensors("{" + two + "," + two + "}", 4), {"duplicate", "'a'"}},
              {safetensors(R"({"__metadata__":{"a":"b"},"__metadata__":{}})"), {"duplicate"}}})},
      {6, "overlapping offsets",
       files(
           {{safetensors("{" + two + "," + entry("b", "U8", "[4]", "[2,6]") + "}", 6), {"'b'"}}})},
      {7, "hole or trailing bytes",
       files({{safetensors("{" + two + "," + entry("b", "U8", "[4]", "[5,9]") + "}", 9), {"'b'"}},
              {safetensors("{" + two + "}", 5), {"5 bytes"}}})},
      {8, "begin > end, negative, float offsets", offsets},
      {9, "shape product overflows", shapes},
      {10, "shape x dtype differs from the bytes",
       files({{safetensors(one("F32", "[2]", "[0,4]"), 4), {"'q'", "8 bytes"}}})},
      {11, "unknown dtype", files({{safetensors(one("F3", "[1]", "[0,4]"), 4), {"'q'", "F3"}}})},
      {12, "dtype other than the schema wants",
       [](Bench& bench) {
         // token ids as f32 instead of i64
         const std::string input = bench.file(
             "in.safetensors",
             safetensors(R"({"input_ids":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})", 8));
         bench.refused({"forward", bench.model("gpt2_lm"), "--input", input, "--output",
                        bench.path("o.safetensors")},
                       {"in.safetensors", "input_ids"});
       }},
      {13, "shapes [] and [2,0] are accepted", empty_shapes},
      {14, "non-string __metadata__",
       files({{safetensors(R"({"__metadata__":{"a":1}})"), {"__metadata__"}}})},
      {15, "header with millions of entries", ten_million_entries},
      {16, "shard path .., absolute or a link out of the folder", shard_paths},
      {17, "missing shard, or a key in two", shard_keys},
      {18, "truncated while mapped", truncated_while_mapped},
  };
}

}  // namespace heed::test
