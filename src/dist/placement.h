#pragma once

#include <string>

#include "dist/communicator.h"

namespace heed {

/// Threads for this rank: `wanted`, or where that is 0 its share of the cores that the ranks of
/// this machine may use. Where the launcher left all of them on the same cores, each is bound to
/// its share. Returns a warning where the machine has fewer cores than threads, else nothing.
std::string place_threads(Communicator& ranks, int wanted);

}  // namespace heed
