#include <cstring>

#include "base/checksum.h"
#include "data/shard.h"
#include "fuzz/target.h"

/// Any bytes as a token shard, also with its checksum made right: what is accepted can be read to
/// its last token.
HEED_FUZZ_TARGET(token_shard) {
  using namespace heed;
  std::string bytes(input);
  for (const bool mend : {false, true}) {
    if (mend && bytes.size() >= sizeof(ShardTrailer)) {
      const size_t at = bytes.size() - sizeof(ShardTrailer::checksum);
      const uint64_t checksum = fingerprint_of(bytes.data(), at, 0);
      std::memcpy(bytes.data() + at, &checksum, sizeof checksum);
    }
    fuzz::with_file(bytes, ".tokens", [&](const std::filesystem::path& path) {
      fuzz::expect_error_or_success([&] {
        const TokenShard shard = TokenShard::open(path);
        std::vector<int64_t> ids(static_cast<size_t>(shard.tokens()));
        shard.copy(0, shard.tokens(), ids.data());
        for (int64_t i = 0; i < shard.sequences(); ++i) {
          shard.copy(shard.begin(i), shard.length(i), ids.data());
        }
        shard.check_vocabulary(100);
      });
    });
  }
}
