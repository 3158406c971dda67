#include "fuzz/target.h"
#include "train/run_folder.h"

/// Any bytes as the state.json of a checkpoint.
HEED_FUZZ_TARGET(run_state) {
  using namespace heed;
  fuzz::expect_error_or_success([&] { state_from_text(std::string(input)); });
}
