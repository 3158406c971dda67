// The two helpers of target.h, included once by each target.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "fuzz/target.h"
#include "heed/error.h"

namespace heed::fuzz {

void expect_error_or_success(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || error.what()[0] == '\0') {
      std::abort();
    }
  }
}

void with_file(const uint8_t* data, size_t size,
               const std::function<void(const std::filesystem::path&)>& fn) {
  const int descriptor = memfd_create("fuzz", 0);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  fn("/proc/self/fd/" + std::to_string(descriptor));
  close(descriptor);
}

}  // namespace heed::fuzz
