#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace heed::bench {

/// One contestant: its name and what it does once.
struct Contestant {
  std::string name;
  std::function<void()> run;
  std::vector<double> times = {};

  double median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
  double best() { return *std::min_element(times.begin(), times.end()); }
};

/// Runs all of them in turn (A B C A B C …), so that a noisy minute hits everybody alike. Before
/// its turn each one gets a pause, in which the others' spinning threads go to sleep, and one run
/// to wake its own.
inline void alternate(std::vector<Contestant>& all, int rounds, int repeats = 1) {
  for (Contestant& one : all) {
    one.run();  // warm-up
    one.times.clear();
  }
  for (int round = 0; round < rounds; ++round) {
    for (Contestant& one : all) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      one.run();
      const double start = seconds_now();
      for (int i = 0; i < repeats; ++i) {
        one.run();
      }
      one.times.push_back((seconds_now() - start) / repeats);
    }
  }
}

}  // namespace heed::bench
