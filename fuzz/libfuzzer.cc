// What libFuzzer calls: the target that HEED_FUZZ_TARGET names. One program for all of them links
// once.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "heed/runtime.h"

namespace {

heed::fuzz::Target chosen_target() {
  heed::set_thread_count(1);  // what happens depends on the input alone
  const char* name = std::getenv("HEED_FUZZ_TARGET");
  for (const heed::fuzz::NamedTarget& target : heed::fuzz::targets()) {
    if (name != nullptr && std::string_view(name) == target.name) {
      return target.run;
    }
  }
  std::fprintf(stderr, "HEED_FUZZ_TARGET must name one of the files of fuzz/, such as npy\n");
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const heed::fuzz::Target target = chosen_target();
  target({reinterpret_cast<const char*>(data), size});
  return 0;
}
