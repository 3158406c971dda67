// Hand-over time of a parallel loop: our pool, OpenMP and oneTBB, in turn, in one run.
#include <cstdio>

#include "base/parallel.h"
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef HEED_HAVE_TBB
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#endif

#include "alternate.h"

namespace {

/// About the given number of nanoseconds of work that the compiler cannot drop.
void spin(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    asm volatile("" ::: "memory");
  }
}

void compare(int tiles, int work) {
  std::vector<heed::bench::Contestant> all;
  all.push_back({"heed", [=] { heed::parallel_for(tiles, [=](int64_t) { spin(work); }); }});
#ifdef _OPENMP
  all.push_back({"OpenMP", [=] {
#pragma omp parallel for schedule(dynamic, 1)
                   for (int i = 0; i < tiles; ++i) {
                     spin(work);
                   }
                 }});
#endif
#ifdef HEED_HAVE_TBB
  all.push_back({"oneTBB", [=] {
                   tbb::parallel_for(
                       0, tiles, [=](int) { spin(work); }, tbb::simple_partitioner());
                 }});
#endif
  heed::bench::alternate(all, 9, 200);
  std::printf("%5d tiles of %5d rounds:", tiles, work);
  for (heed::bench::Contestant& one : all) {
    std::printf("  %s %.2f us (best %.2f)", one.name.c_str(), one.median() * 1e6, one.best() * 1e6);
  }
  std::printf("\n");
}

}  // namespace

int main() {
#ifdef HEED_HAVE_TBB
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<size_t>(heed::thread_count()));
#endif
#ifdef _OPENMP
  omp_set_num_threads(heed::thread_count());
#endif
  for (const int tiles : {2, 16, 128}) {
    for (const int work : {10, 1000, 20000}) {
      compare(tiles, work);
    }
  }
}
