// Fault table, lines 64 to 67, 88 to 94, 97, 98 and 100: the command line, files and resources.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "base/file.h"
#include "faults/server_process.h"
#include "support/budget.h"
#include "support/emulated.h"
#include "support/gzip.h"

namespace heed::test {
namespace {

/// A training command that ends after a step; `more` comes last.
Run tiny_training(Bench& bench, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"--batch", "2", "--steps", "2", "--warmup", "1"};
  all.insert(all.end(), more.begin(), more.end());
  return one_block_training(bench, "lm", lines_about_cats(bench), all);
}

void not_a_model(Bench& bench) {
  const std::string fifo = bench.path("fifo");
  mkfifo(fifo.c_str(), 0600);
  std::filesystem::create_directory(bench.path("folder"));
  bench.refused({"info", bench.path("folder")}, {"folder"});
  bench.refused({"info", fifo}, {"fifo"});
  bench.refused({"info", "/dev/zero"}, {"/dev/zero"});
  bench.refused({"attention", "--input", fifo, "--output", bench.path("o")}, {"fifo"});
}

void closed_stdout(Bench& bench) {
  const std::string file =
      bench.file("tokenizer.json", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  const std::string lines = bench.file("lines", std::string(2'000'000, 'a') + "\na\na\n");
  const std::string command =
      fmt::format("'{}' tokenize '{}' < '{}' | head -c 1 >/dev/null; exit \\${{PIPESTATUS[0]}}",
                  program().native(), file, lines);
  bench.expect(std::system(("bash -c \"" + command + "\"").c_str()) == 0, "`| head` exits 0");
  const std::string closed =
      fmt::format("'{}' info '{}' >&-", program().native(), bench.model("gpt2_lm"));
  bench.expect(std::system(closed.c_str()) == 0, "a closed stdout is no crash");
}

void output_kinds(Bench& bench) {
  const std::string model = bench.model("gpt2_lm");
  const auto forward = [&](const std::string& out) {
    bench.accepted({.arguments = {"forward", model, "--input", model + "/inputs.safetensors",
                                  "--output", out}});
  };
  struct stat info {};
  forward("/dev/null");
  bench.expect(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode),
               "/dev/null is a device still");
  bench.file("target", "old");
  chmod(bench.path("target").c_str(), 0600);
  std::filesystem::create_symlink("target", bench.path("link"));
  forward(bench.path("link"));
  bench.expect(std::filesystem::is_symlink(bench.path("link")), "the link is a link still");
  bench.expect(stat(bench.path("target").c_str(), &info) == 0 && (info.st_mode & 07777) == 0600,
               "the mode is kept");
  bench.expect(read_file(bench.path("target")) != "old", "the link's target was written");
  const std::string fifo = bench.path("fifo");
  mkfifo(fifo.c_str(), 0600);
  std::string came;
  Run piped{
      .arguments = {"forward", model, "--input", model + "/inputs.safetensors", "--output", fifo}};
  piped.meanwhile = [&](pid_t) {
    std::ifstream stream(fifo, std::ios::binary);  // waits for the writer
    came.assign(std::istreambuf_iterator<char>(stream), {});
  };
  bench.accepted(piped);
  bench.expect(came == read_file(bench.path("target")), "a FIFO is written through");
  bench.expect(stat(fifo.c_str(), &info) == 0 && S_ISFIFO(info.st_mode), "and is one still");
  bench.refused({"forward", model, "--input", model + "/inputs.safetensors", "--output",
                 bench.path("absent") / "out"},
                {"absent/out"}, 1);
}

void few_threads(Bench& bench) {
  if constexpr (kEmulated) {
    bench.skip("emulator: qemu itself ends where the system gives it no thread");
    return;
  }
  if constexpr (kSanitized) {
    bench.skip("sanitizer: it needs terabytes of address space and a thread of its own");
    return;
  }
  const std::string model = bench.model("gpt2_lm");
  Run run{.arguments = {"forward", model, "--input", model + "/inputs.safetensors", "--output",
                        bench.path("out"), "--threads", "64"}};
  run.limits = {{RLIMIT_AS, uint64_t{400} << 20}};
  const Outcome outcome = run_program(run);
  bench.expect(outcome.signal == 0 && (outcome.code == 0 || outcome.err.starts_with("heed: ")),
               fmt::format("64 threads in 400 MB of address space: code {}, signal {}: {}",
                           outcome.code, outcome.signal, outcome.err.substr(0, 200)));
  // Without a single further thread: what can work alone does, the others say what they lack. The
  // limit on processes binds everyone but root, so that this needs root to become somebody else.
  if (geteuid() == 0 && std::system("command -v setpriv >/dev/null") == 0) {
    const std::string lm = small_models() / "lm";
    const std::filesystem::path copy = bench.path("readable");
    std::filesystem::copy(lm, copy, std::filesystem::copy_options::recursive);
    for (const std::filesystem::path& folder : {bench.path(""), copy}) {
      std::filesystem::permissions(folder, std::filesystem::perms(0755));
    }
    std::filesystem::create_directory(bench.path("open"));
    std::filesystem::permissions(bench.path("open"), std::filesystem::perms(0777));
    const auto by_nobody = [](Run start) {
      start.limits = {{RLIMIT_NPROC, 1}};
      start.launcher = {"setpriv", "--reuid", "65534", "--clear-groups"};
      return start;
    };
    bench.accepted(by_nobody({.arguments = {"generate", copy, "--prompt", "the", "--max-tokens",
                                            "2", "--threads", "8"}}));
    bench.refused(by_nobody(small_training(bench, "open/run")), {"thread cannot be started"}, 1);
  }
  for (const char* threads : {"0", "1000000", "-3", "x"}) {
    bench.refused({"info", model, "--threads", threads}, {"threads"}, 2);
  }
}

void altered_cache(Bench& bench) {
  const Run run = tiny_training(bench, {"--out", bench.path("run")});
  bench.accepted(run);
  const std::string first = read_file(bench.path("run") / "model" / "model.safetensors");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(bench.path("cache") / "heed")) {
    std::string content = read_file(entry.path());
    content[content.size() / 3] = static_cast<char>(content[content.size() / 3] ^ 4);
    std::ofstream(entry.path(), std::ios::binary) << content;
    ++files;
  }
  bench.expect(files > 0, "there is a cache");
  const Outcome again = bench.accepted(tiny_training(bench, {"--out", bench.path("again")}));
  bench.expect(again.err.find("checksum") != std::string::npos,
               "the damage is named: " + again.err);
  bench.expect(read_file(bench.path("again") / "model" / "model.safetensors") == first,
               "and the same model is trained");
}

void no_home(Bench& bench) {
  const std::string file = bench.file("file", "");
  Run run = tiny_training(bench, {"--out", bench.path("run")});
  run.environment = {{"XDG_CACHE_HOME", file + "/below"}, {"HOME", file}};
  bench.accepted(run);
}

void bombs(Bench& bench) {
  // 1 GB of zeros in 1 MB, as images and as text.
  std::string zeros;
  {
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
    const std::string block(size_t{1} << 20, '\0');
    std::string packed(size_t{2} << 20, '\0');
    const std::string header = std::string("\0\0\x08\x01", 4) + std::string("\0\0\0\x04", 4);
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    const auto add = [&](const std::string& text, int flush) {
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
      stream.avail_in = static_cast<uInt>(text.size());
      deflate(&stream, flush);
    };
    add(header, Z_NO_FLUSH);
    for (int i = 0; i < 1000; ++i) {
      add(block, Z_NO_FLUSH);
    }
    add("", Z_FINISH);
    packed.resize(packed.size() - stream.avail_out);
    deflateEnd(&stream);
    zeros = packed;
  }
  std::filesystem::create_directories(bench.path("set"));
  bench.file("set/train-images-idx3-ubyte.gz", zeros);
  bench.file("set/train-labels-idx1-ubyte.gz", zeros);
  Run images;
  images.arguments = {"train",           "--task", "image-classify",  "--data",
                      bench.path("set"), "--out",  bench.path("run"), "--quiet"};
  bench.refused(images, {"idx"}, 3, static_cast<int64_t>(zeros.size()));
  Run text = tiny_training(bench, {"--out", bench.path("run2")});
  text.arguments[4] = bench.file("bomb.txt.gz", zeros);
  const Outcome outcome = run_program(text);
  bench.expect(outcome.code == 3 && outcome.err.find("bomb.txt.gz") != std::string::npos &&
                   (kSanitized || outcome.peak_bytes < (int64_t{400} << 20)),
               fmt::format("a text that expands 1000 times is refused: {} {}", outcome.code,
                           outcome.err.substr(0, 200)));
}

void escapes(Bench& bench) {
  const std::string folder = bench.path("a\x1b[31m\nb");
  std::filesystem::create_directory(folder);
  const auto clean = [&](const Outcome& outcome, const std::string& what) {
    for (const std::string* text : {&outcome.out, &outcome.err}) {
      bench.expect(
          text->find('\x1b') == std::string::npos && text->find('\x07') == std::string::npos,
          what + " has no control characters");
    }
    bench.expect(std::count(outcome.err.begin(), outcome.err.end(), '\n') <= 1,
                 what + " is one line");
  };
  const auto refused = [&](const Outcome& outcome, const std::string& what) {
    clean(outcome, what);
    bench.expect(outcome.code == 3 && outcome.err.find("\\x1b") != std::string::npos,
                 what + " shows them escaped: " + outcome.err);
  };
  refused(run_program({.arguments = {"info", folder}}), "an error about an odd path");
  refused(run_program(
              {.arguments = {"attention", "--input",
                             bench.file("t.safetensors",
                                        safetensors("{\"a\\u001b[31m\\n\":{\"dtype\":\"\\u001b\","
                                                    "\"shape\":[1],\"data_offsets\":[0,4]}}",
                                                    4)),
                             "--output", bench.path("o")}}),
          "an error about a tensor's name");
  // Labels, tokens, sources of search results: cells of a table.
  const Outcome classified = run_program(
      {.arguments = {"classify", small_models() / "classifier", "--text", "the lazy dog"}});
  clean(classified, "a label");
  bench.expect(classified.code == 0 && classified.out.find("\\x1b") != std::string::npos,
               "it is shown escaped: " + classified.out + classified.err);
  bench.expect(std::count(classified.out.begin(), classified.out.end(), '\n') <= 1,
               "a label with a newline stays in its line: " + classified.out);
  const std::string document = bench.file("odd\x1b[31m\n.txt", "the lazy\x1b[31m dog \xc2\x9b");
  const std::string index = bench.path("odd.heed-index");
  clean(run_program({.arguments = {"index", document, "--model", small_models() / "encoder",
                                   "--out", index, "--quiet"}}),
        "indexing a file with an odd name");
  const Outcome found =
      run_program({.arguments = {"search", index, "lazy dog", "--mode", "lexical"}});
  clean(found, "a search result");
  bench.expect(std::count(found.out.begin(), found.out.end(), '\n') == 2,
               "a result has two lines: " + found.out);
  refused(run_program({.arguments = {"info", bench.model("gpt2_lm",
                                                         {{"model_type", "\"g\\u001b[2J\\n\""}})}}),
          "an error about a configuration");
}

void signals(Bench& bench) {
  const std::string model = bench.model("gpt2_lm");
  Run limited{.arguments = {"forward", model, "--input", model + "/inputs.safetensors", "--output",
                            bench.path("out")}};
  limited.limits = {{RLIMIT_FSIZE, 100}};
  const Outcome outcome = run_program(limited);
  bench.expect(outcome.signal == 0 && outcome.code == 1, "a limit on file sizes is an error");
  bench.expect(!std::filesystem::exists(bench.path("out")), "and leaves nothing behind");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // Reads stdin for ever: a FIFO that nobody writes to. A shell in the background ignores SIGINT,
    // and heed leaves ignored what its parent ignored.
    const std::string fifo = bench.path("fifo" + std::to_string(number));
    mkfifo(fifo.c_str(), 0600);
    const std::string script = fmt::format(
        "env --default-signal '{}' tokenize '{}' <>'{}' >/dev/null 2>&1 & p=\\$!; sleep {}; kill "
        "-{} \\$p; wait \\$p",
        program().native(),
        bench.file("tokenizer.json", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})"),
        fifo, sized(0.5, 5.0), number);
    const int status = std::system(("bash -c \"set -m; " + script + "\"").c_str());
    bench.expect(WIFEXITED(status) && WEXITSTATUS(status) == 130,
                 fmt::format("signal {} ends with 130, not {}", number, WEXITSTATUS(status)));
  }
  const Run endless = tiny_training(
      bench, {"--out", bench.path("run"), "--steps", "1000000", "--checkpoint-every", "1000000"});
  Run hung_up = endless;
  hung_up.kill_after = 2;
  hung_up.kill_signal = SIGHUP;
  const Outcome stopped = run_program(hung_up);
  bench.expect(stopped.code == 130, fmt::format("training after SIGHUP: code {}", stopped.code));
  bench.expect(std::filesystem::exists(bench.path("run") / "checkpoints") &&
                   !std::filesystem::is_empty(bench.path("run") / "checkpoints"),
               "SIGHUP saves the run");
}

void named_files(Bench& bench) {
  bench.refused({"info", bench.file("m.gguf", "GGUF")}, {"m.gguf"});
  bench.refused({"info", bench.path("absent")}, {"absent"});
  bench.refused({"tokenize", bench.file("tokenizer.json", "{\"model\":")},
                {"tokenizer.json", "JSON"});
  // What libpng says of a file is no message of heed's.
  std::string png = read_file(golden("io/rgb.png"));
  png.replace(37, 4, "\x1b[31");
  const std::string damaged = bench.file("a.png", png);
  const std::string vision = bench.model("vit_classify");
  bench.refused({"classify", vision, "--image", damaged, "--lang", "en"},
                {"a.png: is a corrupt PNG\n"});
  bench.refused({"classify", vision, "--image", damaged, "--lang", "ko"},
                {"a.png: 손상된 PNG입니다\n"});
  // A file beside config.json is to blame, not config.json.
  bench.accepted(tiny_training(bench, {"--out", bench.path("run")}));
  const std::vector<std::string> generate = {"generate", bench.path("run"), "--prompt", "the"};
  bench.file("run/model/generation_config.json", R"({"eos_token_id": "x"})");
  bench.refused(generate, {"run/model/generation_config.json: eos_token_id is \"x\""});
  bench.file("run/model/generation_config.json", "{");
  bench.refused(generate, {"run/model/generation_config.json: is not valid JSON"});
  std::filesystem::remove(bench.path("run/model/generation_config.json"));
  bench.file("run/model/tokenizer_config.json", "{");
  bench.refused(generate, {"run/model/tokenizer_config.json: is not valid JSON"});
}

}  // namespace

std::vector<Fault> command_faults() {
  return {
      {64, "unknown flag, -1, 1e99",
       [](Bench& bench) {
         const std::string model = bench.model("gpt2_lm");
         bench.refused({"info", model, "--nonsense"}, {"--nonsense"}, 2);
         bench.refused({"generate", model, "--prompt", "a", "--max-tokens", "-1"}, {"max-tokens"},
                       2);
         bench.refused({"generate", model, "--prompt", "a", "--temperature", "1e99"},
                       {"temperature"}, 2);
         bench.refused({"nonsense"}, {"nonsense"}, 2);
       }},
      {65, "directory, FIFO, /dev/zero as a model", not_a_model},
      {66, "unwritable output fails before step 1",
       [](Bench& bench) {
         bench.file("occupied", "a file");
         bench.refused(tiny_training(bench, {"--out", bench.path("occupied") / "run"}),
                       {"occupied"}, 1);
       }},
      {67, "closed stdout", closed_stdout},
      {88, "threads 0 or 10^6",
       [](Bench& bench) {
         const std::string model = bench.model("gpt2_lm");
         bench.refused({"info", model, "--threads", "0"}, {"threads"}, 2);
         bench.refused({"info", model, "--threads", "1000000"}, {"threads"}, 2);
       }},
      {89, "output is a device, FIFO or link", output_kinds},
      {90, "a thread cannot start", few_threads},
      {91, "token cache altered", altered_cache},
      {93, "no writable HOME", no_home},
      {94, "compressed input that expands", bombs},
      {97, "escapes and newlines in strings from files", escapes},
      {98, "SIGXFSZ, SIGHUP, exit codes", signals},
      {100, "errors name the file in its own terms", named_files},
  };
}

}  // namespace heed::test
