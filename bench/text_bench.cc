// Tokenizers on one thread: megabytes of text a second, and how time grows on one endless word.
// bench_text [TEXT] [TOKENIZER…]: TEXT defaults to wikitext2 in the folder HEED_SHARED, tokenizers
// to those beside it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "heed/runtime.h"
#include "heed/text.h"

namespace {

double seconds_of(const heed::Tokenizer& tokenizer, const std::string& text, int rounds) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<heed::TokenId> ids;
    tokenizer.append_ids(text, ids);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  heed::set_thread_count(1);
  const char* folder = std::getenv("HEED_SHARED");
  const std::string shared = folder == nullptr ? "" : std::string(folder) + "/";
  const std::string file = argc > 1 ? argv[1] : shared + "wikitext2/wiki.test.raw";
  std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  if (names.empty()) {
    names = {shared + "tokenizers/gpt2.vocab.json",
             shared + "tokenizers/bert-base-uncased.vocab.txt",
             shared + "tokenizers/llama-spm.gguf", shared + "tokenizers/tiny-t5.model"};
  }
  const std::string text = heed::read_file(file);
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  for (const std::string& name : names) {
    const heed::Tokenizer tokenizer = heed::Tokenizer::load(name);
    const double speed = megabytes / seconds_of(tokenizer, text, 5);
    std::printf("%-45s %8.1f MB/s", std::filesystem::path(name).filename().c_str(), speed);
    for (const size_t size : {size_t{1} << 20, size_t{10} << 20}) {
      const double seconds = seconds_of(tokenizer, std::string(size, 'a'), 1);
      std::printf("   %2zu MB of a: %6.2f s", size >> 20, seconds);
    }
    std::printf("\n");
  }
  return 0;
}
