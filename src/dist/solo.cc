#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/check.h"
#include "base/checksum.h"
#include "dist/communicator.h"

namespace heed {
namespace {

class Solo final : public Communicator {
 public:
  std::vector<std::string> gather(std::string_view mine) override { return {std::string(mine)}; }
  void broadcast(void*, size_t) override {}
  void start_sum(float*, int64_t, bool) override {}
  void start_all_gather(float*, int64_t) override {}
  void finish() override {}
  double take_busy_seconds() override { return 0.0; }
  [[noreturn]] void abort(int code) override { std::exit(code); }
};

/// How many ranks a launcher started; 0 where there is no launcher.
int launched_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const char* value = std::getenv(name)) {
      return std::max(1, std::atoi(value));
    }
  }
  return std::getenv("PMIX_RANK") != nullptr ? 1 : 0;
}

std::unique_ptr<Communicator> make_world() {
  const int launched = launched_ranks();
  if (launched > 0) {
    if (auto ranks = make_mpi_communicator()) {
      return ranks;
    }
    if (launched > 1) {
      fail(ErrorKind::usage, "mpirun",
           "started {} ranks, but this heed was built without MPI and they would each train on "
           "their own; install libopenmpi-dev and build with -DHEED_MPI=ON",
           launched);
    }
  }
  return std::make_unique<Solo>();
}

std::vector<double> numbers(const std::string& bytes, size_t count) {
  check(bytes.size() == count * sizeof(double), "ranks", "{} bytes came for {} numbers",
        bytes.size(), count);
  std::vector<double> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class Combine>
std::vector<double> reduce(Communicator& ranks, const std::vector<double>& mine, Combine combine) {
  if (ranks.size() == 1) {
    return mine;
  }
  const std::vector<std::string> all =
      ranks.gather({reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double)});
  std::vector<double> result = numbers(all.front(), mine.size());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::vector<double> other = numbers(all[rank], mine.size());
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = combine(result[i], other[i]);
    }
  }
  return result;
}

/// The first line of `text` that `other` lacks at its place.
std::string first_difference(const std::string& text, const std::string& other) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (other.compare(begin, end - begin, text, begin, end - begin) != 0) {
      return text.substr(begin, end - begin);
    }
    begin = end + 1;
  }
  return "(nothing)";
}

}  // namespace

Communicator& world() {
  static const std::unique_ptr<Communicator> ranks = make_world();
  return *ranks;
}

std::string Communicator::broadcast(std::string text) {
  auto bytes = static_cast<uint64_t>(text.size());
  broadcast(&bytes, sizeof bytes);
  text.resize(bytes);
  broadcast(text.data(), text.size());
  return text;
}

std::vector<double> Communicator::sum(const std::vector<double>& mine) {
  return reduce(*this, mine, [](double a, double b) { return a + b; });
}

std::vector<double> Communicator::max(const std::vector<double>& mine) {
  return reduce(*this, mine, [](double a, double b) { return a < b ? b : a; });
}

void check_same(Communicator& ranks, std::string_view what, const std::string& text) {
  const std::vector<std::string> sums = ranks.gather(fmt::format("{:016x}", fingerprint_of(text)));
  for (size_t rank = 1; rank < sums.size(); ++rank) {
    if (sums[rank] != sums[0]) {
      const std::vector<std::string> texts = ranks.gather(text);  // the same way on every rank
      fail(ErrorKind::usage, "ranks",
           "rank {} has another {} than rank 0: '{}', not '{}'; start every rank with the same "
           "command, data and program",
           rank, what, first_difference(texts[rank], texts[0]),
           first_difference(texts[0], texts[rank]));
    }
  }
}

}  // namespace heed
