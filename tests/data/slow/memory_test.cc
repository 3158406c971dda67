#include <gtest/gtest.h>

#include <fstream>

#include "data/support.h"

namespace heed {
namespace {

/// Largest resident size since the last reset, in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "VmHWM:") {
      int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return 0;
}

bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

/// How much the peak grows while a text of that size becomes a shard.
int64_t growth(const test::TemporaryFolder& folder, int64_t bytes) {
  std::string line;
  for (int i = 0; line.size() < 10'000; ++i) {
    line += "word" + std::to_string(i * 7919 % 1000) + (i % 12 == 11 ? "\n" : " ");
  }
  const auto path = folder / (std::to_string(bytes) + ".txt");
  std::ofstream file(path, std::ios::binary);
  for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(line.size())) {
    file << line;
  }
  file.close();
  std::vector<std::string> words;
  for (int i = 0; i < 1000; ++i) {
    words.push_back("word" + std::to_string(i));
  }
  const Tokenizer tokenizer = test::word_tokenizer(words);
  DataOptions options;
  options.cache = folder / "cache";
  reset_peak();
  const int64_t before = peak_memory();
  load_text(path.string(), tokenizer, options);
  return peak_memory() - before;
}

TEST(Memory, DoesNotGrowWithTheFile) {
  if (!reset_peak()) {
    GTEST_SKIP() << "needs /proc/self/clear_refs";
  }
  test::TemporaryFolder folder;
  growth(folder, 8 << 20);  // fills the allocator and the tokenizer's memory
  const int64_t large = growth(folder, 128 << 20);
  EXPECT_LT(large, 48 << 20);
}

}  // namespace
}  // namespace heed
