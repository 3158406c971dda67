// A main() for fuzz targets without libFuzzer: fuzz_NAME [-seconds=N] [-seed=N] FILE|FOLDER...
// Runs every file once; with -seconds goes on with mutations of them. The input at hand is kept in
// ./fuzz-input, which stays there after a crash.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/target.h"
#include "heed/random.h"

namespace {

constexpr size_t kMaxInput = size_t{1} << 20;
constexpr const char* kKept = "fuzz-input";

/// The input at hand in a shared mapping: in the file whatever ends the process.
class Keeper {
 public:
  Keeper() {
    const int descriptor = open(kKept, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (descriptor >= 0 && ftruncate(descriptor, kMaxInput) == 0) {
      kept_ = mmap(nullptr, kMaxInput, PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    descriptor_ = descriptor;
  }
  ~Keeper() {
    close(descriptor_);
    unlink(kKept);
  }
  void run(const std::string& input) {
    if (kept_ != MAP_FAILED) {
      std::memcpy(kept_, input.data(), std::min(input.size(), kMaxInput));
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }

 private:
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

int main(int count, char** arguments) {
  using Clock = std::chrono::steady_clock;
  double seconds = 0;
  uint64_t seed = 1;
  std::vector<std::string> corpus;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument.starts_with("-seconds=")) {
      seconds = std::stod(argument.substr(9));
    } else if (argument.starts_with("-seed=")) {
      seed = std::stoull(argument.substr(6));
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argument)) {
        if (entry.is_regular_file() && entry.file_size() <= kMaxInput) {
          corpus.push_back(read(entry.path()));
        }
      }
    } else {
      corpus.push_back(read(argument));
    }
  }
  if (corpus.empty()) {
    corpus.emplace_back();
  }
  Keeper keeper;
  for (const std::string& input : corpus) {
    keeper.run(input);
  }
  heed::Random random(seed);
  const Clock::time_point start = Clock::now();
  uint64_t runs = 0;
  double slowest = 0;
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  while (elapsed() < seconds) {
    std::string input = corpus[random.below(corpus.size())];
    for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      mutate(input, random);
    }
    const double before = elapsed();
    keeper.run(input);
    slowest = std::max(slowest, elapsed() - before);
    ++runs;
  }
  std::printf("%zu files, %llu mutations, slowest %.3f s, nothing found\n", corpus.size(),
              static_cast<unsigned long long>(runs), slowest);
  return 0;
}
