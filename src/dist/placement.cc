#include "dist/placement.h"

#include <sched.h>

#include <cstring>

#include "base/check.h"
#include "heed/runtime.h"

namespace heed {
namespace {

/// The cores this process may run on.
cpu_set_t own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    CPU_SET(0, &set);
  }
  return set;
}

/// The share of `cores` that belongs to number `index` of `count`.
cpu_set_t share_of(const cpu_set_t& cores, int index, int count) {
  const int total = CPU_COUNT(&cores);
  cpu_set_t share;
  CPU_ZERO(&share);
  int seen = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) {
      if (seen >= total * index / count && seen < total * (index + 1) / count) {
        CPU_SET(core, &share);
      }
      ++seen;
    }
  }
  return share;
}

}  // namespace

std::string place_threads(Communicator& ranks, int wanted) {
  if (ranks.size() == 1) {
    return {};
  }
  struct Note {
    int machine;
    cpu_set_t cores;
  } mine{ranks.machine(), own_cores()};
  const std::vector<std::string> notes =
      ranks.gather({reinterpret_cast<const char*>(&mine), sizeof mine});
  cpu_set_t all;
  CPU_ZERO(&all);
  bool same = true;
  for (const std::string& note : notes) {
    Note other;
    std::memcpy(&other, note.data(), sizeof other);
    if (other.machine == mine.machine) {
      CPU_OR(&all, &all, &other.cores);
      same = same && CPU_EQUAL(&mine.cores, &other.cores) != 0;
    }
  }
  const int cores = CPU_COUNT(&all);
  const int local = ranks.local_size();
  const int share = std::max(1, cores / local);
  const int threads = wanted > 0 ? wanted : same ? share : CPU_COUNT(&mine.cores);
  if (same && local > 1 && local <= cores && threads <= share) {
    const cpu_set_t part = share_of(all, ranks.local_rank(), local);
    sched_setaffinity(0, sizeof part, &part);
  }
  set_thread_count(threads);
  if (threads * local <= cores || ranks.local_rank() != 0) {
    return {};
  }
  return fmt::format(
      "{} ranks with {} threads each share {} cores; fewer ranks per machine or {} threads per "
      "rank "
      "would be faster",
      local, threads, cores, share);
}

}  // namespace heed
