// fuzz_replay [-seconds=N] [-seed=N] [-seeds=FOLDER] [TARGET…]: runs every target, or those named,
// on the files of FOLDER/TARGET; with -seconds each goes on with random mutations of them for so
// long. Without libFuzzer, so that any compiler builds it and ./dev test can run it. The current
// input is kept in ./fuzz-input, which stays there after a crash.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/target.h"
#include "heed/runtime.h"

namespace {

constexpr size_t kMaxInput = size_t{1} << 20;
constexpr const char* kKept = "fuzz-input";

/// Keeps the current input in a shared mapping: it is in the file, whatever ends the process.
class Keeper {
 public:
  explicit Keeper(heed::fuzz::Target target) : target_(target) {
    const int descriptor = open(kKept, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (descriptor >= 0 && ftruncate(descriptor, kMaxInput) == 0) {
      kept_ = mmap(nullptr, kMaxInput, PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    descriptor_ = descriptor;
  }
  ~Keeper() {
    if (kept_ != MAP_FAILED) {
      munmap(kept_, kMaxInput);
    }
    close(descriptor_);
    unlink(kKept);
  }
  void run(const std::string& input) {
    if (kept_ != MAP_FAILED) {
      std::memcpy(kept_, input.data(), std::min(input.size(), kMaxInput));
    }
    target_(input);
  }

 private:
  heed::fuzz::Target target_;
  int descriptor_ = -1;
  void* kept_ = MAP_FAILED;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One small change of a kind that finds unchecked lengths and offsets.
void mutate(std::string& input, heed::Random& random) {
  static constexpr uint64_t kNumbers[] = {
      0,          1,          0x7f,       0x80,       0xff,       0x7fff, 0xffff, 0x7fffffff,
      0x80000000, 0xffffffff, 1ull << 32, 1ull << 62, 1ull << 63, ~0ull,  ~7ull};
  if (input.empty()) {
    input = "x";
  }
  const size_t at = random.below(input.size());
  const size_t length = 1 + random.below(std::min<size_t>(32, input.size() - at));
  switch (random.below(7)) {
    case 0:
      input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
      break;
    case 1:
      input[at] = static_cast<char>(random.below(256));
      break;
    case 2: {
      const uint64_t number = kNumbers[random.below(std::size(kNumbers))];
      std::memcpy(input.data() + at, &number,
                  std::min<size_t>(random.below(2) ? 8 : 4, input.size() - at));
      break;
    }
    case 3:
      input.erase(at, length);
      break;
    case 4:
      input.insert(random.below(input.size()), input.substr(at, length));
      break;
    case 5:
      input.resize(at);
      break;
    default:
      input[at] = "{}[]\",:0123456789-.e\\"[random.below(21)];
      break;
  }
}

}  // namespace

namespace {

struct Settings {
  double seconds = 0;
  uint64_t seed = 1;
  std::filesystem::path seeds = "fuzz/seeds";
  std::vector<std::string> names;
};

std::vector<std::string> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.file_size() <= kMaxInput) {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus = {""};
  for (const auto& file : files) {
    corpus.push_back(read(file));
  }
  return corpus;
}

/// False if the target has no corpus.
bool replay(const heed::fuzz::NamedTarget& target, const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const std::vector<std::string> corpus = read_corpus(settings.seeds / target.name);
  Keeper keeper(target.run);
  for (const std::string& input : corpus) {
    keeper.run(input);
  }
  heed::Random random(settings.seed);
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  uint64_t runs = 0;
  double slowest = 0;
  while (elapsed() < settings.seconds) {
    std::string input = corpus[random.below(corpus.size())];
    for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      mutate(input, random);
    }
    const double before = elapsed();
    keeper.run(input);
    slowest = std::max(slowest, elapsed() - before);
    ++runs;
  }
  std::printf("%-16s %zu files, %llu mutations, slowest %.3f s, nothing found\n", target.name,
              corpus.size() - 1, static_cast<unsigned long long>(runs), slowest);
  std::fflush(stdout);
  return corpus.size() > 1;
}

}  // namespace

int main(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument.starts_with("-seconds=")) {
      settings.seconds = std::stod(argument.substr(9));
    } else if (argument.starts_with("-seed=")) {
      settings.seed = std::stoull(argument.substr(6));
    } else if (argument.starts_with("-seeds=")) {
      settings.seeds = argument.substr(7);
    } else {
      settings.names.push_back(argument);
    }
  }
  int failed = 0;
  size_t found = 0;
  for (const heed::fuzz::NamedTarget& target : heed::fuzz::targets()) {
    if (settings.names.empty() || std::find(settings.names.begin(), settings.names.end(),
                                            target.name) != settings.names.end()) {
      ++found;
      if (!replay(target, settings)) {
        std::printf("%s has no corpus in %s\n", target.name, settings.seeds.c_str());
        failed = 1;
      }
    }
  }
  if (found == 0 || found < settings.names.size()) {
    std::printf("a target is unknown\n");
    failed = 1;
  }
  return failed;
}
