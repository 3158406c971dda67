// fuzz_replay [-seconds=N] [-seed=N] [-seeds=FOLDER]… [TARGET…]: runs every target, or those named,
// on the files of FOLDER/TARGET; with -seconds each goes on with random mutations of them for so
// much processor time. Without libFuzzer, so that any compiler builds it and ./dev test can run it,
// and without sanitizers ten times as fast. The current input is kept in ./fuzz-input, which stays
// there after a crash and after an input that takes more than ten seconds.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/target.h"
#include "heed/runtime.h"

namespace {

constexpr size_t kMaxInput = size_t{1} << 20;
constexpr const char* kKept = "fuzz-input";
constexpr time_t kTick = 5;  // seconds; an input that two ticks meet is a hang

int g_kept = -1;                             // the file of the current input
volatile size_t g_kept_bytes = 0;            // its length
volatile std::sig_atomic_t g_is_new = true;  // another input since the last tick

void on_crash(int signal) {
  [[maybe_unused]] const int cut = ftruncate(g_kept, static_cast<off_t>(g_kept_bytes));
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void on_tick(int) {
  if (!g_is_new) {
    constexpr std::string_view kMessage = "an input takes too long\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
    abort();
  }
  g_is_new = false;
}

void handle_signals() {
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) {
    struct sigaction present {};
    if (sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_DFL) {
      std::signal(signal, on_crash);  // a sanitizer has handlers of its own
    }
  }
  std::signal(SIGPROF, on_tick);
  const itimerval ticks{{kTick, 0}, {kTick, 0}};
  setitimer(ITIMER_PROF, &ticks, nullptr);
}

/// Keeps the current input in a shared mapping: it is in the file, whatever ends the process.
class Keeper {
 public:
  explicit Keeper(heed::fuzz::Target target) : target_(target) {
    g_kept = open(kKept, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (g_kept >= 0 && ftruncate(g_kept, kMaxInput) == 0) {
      kept_ = mmap(nullptr, kMaxInput, PROT_WRITE, MAP_SHARED, g_kept, 0);
    }
  }
  ~Keeper() {
    if (kept_ != MAP_FAILED) {
      munmap(kept_, kMaxInput);
    }
    close(g_kept);
    unlink(kKept);
  }
  void run(const std::string& input) {
    if (kept_ != MAP_FAILED) {
      g_kept_bytes = std::min(input.size(), kMaxInput);
      std::memcpy(kept_, input.data(), g_kept_bytes);
    }
    g_is_new = true;
    target_(input);
  }

 private:
  heed::fuzz::Target target_;
  void* kept_ = MAP_FAILED;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One small change of a kind that finds unchecked lengths and offsets; `other` is a second input
/// of the corpus.
void mutate(std::string& input, const std::string& other, heed::Random& random) {
  static constexpr uint64_t kNumbers[] = {
      0,          1,          0x7f,       0x80,       0xff,       0x7fff, 0xffff, 0x7fffffff,
      0x80000000, 0xffffffff, 1ull << 32, 1ull << 62, 1ull << 63, ~0ull,  ~7ull};
  if (input.empty()) {
    input = "x";
  }
  const size_t at = random.below(input.size());
  const size_t length = 1 + random.below(std::min<size_t>(32, input.size() - at));
  switch (random.below(8)) {
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
    case 6: {
      const size_t from = random.below(other.size() + 1);
      input.insert(at, other, from, 1 + random.below(64));
      break;
    }
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
  std::vector<std::filesystem::path> seeds;
  std::vector<std::string> names;
};

std::vector<std::string> read_corpus(const Settings& settings, const char* target) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& seeds : settings.seeds) {
    const std::filesystem::path folder = seeds / target;
    if (!std::filesystem::is_directory(folder)) {
      continue;
    }
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

/// Processor time of this process: others may keep it waiting.
double seconds_used() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// False if the target has no corpus.
bool replay(const heed::fuzz::NamedTarget& target, const Settings& settings) {
  const std::vector<std::string> corpus = read_corpus(settings, target.name);
  Keeper keeper(target.run);
  for (const std::string& input : corpus) {
    keeper.run(input);
  }
  heed::Random random(settings.seed);
  const double start = seconds_used();
  double now = start;
  uint64_t runs = 0;
  double slowest = 0;
  std::string input;
  while (now - start < settings.seconds) {
    input = corpus[random.below(corpus.size())];
    for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      mutate(input, corpus[random.below(corpus.size())], random);
    }
    keeper.run(input);
    const double before = std::exchange(now, seconds_used());
    slowest = std::max(slowest, now - before);
    ++runs;
  }
  std::printf("%-16s %zu files, %llu mutations in %.1f s, slowest %.3f s, nothing found\n",
              target.name, corpus.size() - 1, static_cast<unsigned long long>(runs), now - start,
              slowest);
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
      settings.seeds.emplace_back(argument.substr(7));
    } else {
      settings.names.push_back(argument);
    }
  }
  if (settings.seeds.empty()) {
    settings.seeds.emplace_back("fuzz/seeds");
  }
  heed::set_thread_count(1);
  handle_signals();
  int failed = 0;
  size_t found = 0;
  for (const heed::fuzz::NamedTarget& target : heed::fuzz::targets()) {
    if (settings.names.empty() || std::find(settings.names.begin(), settings.names.end(),
                                            target.name) != settings.names.end()) {
      ++found;
      if (!replay(target, settings)) {
        std::printf("%s has no corpus in %s\n", target.name, settings.seeds.front().c_str());
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
