#include "fuzz/target.h"
#include "heed/io.h"

/// Any bytes as WAV, FLAC, OGG or MP3.
HEED_FUZZ_TARGET(audio) {
  using namespace heed;
  fuzz::expect_error_or_success([&] { decode_audio(input, "input", 16000); });
}
