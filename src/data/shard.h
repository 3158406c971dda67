#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/streaming_fingerprint.h"
#include "heed/data.h"

namespace heed {

/// The end of a shard file. Before it: the ids (2 or 4 bytes each, little-endian), zeros up to a
/// multiple of 8 bytes, and the end of every sequence as u64. See docs/formats/token-shard.md.
struct ShardTrailer {
  char magic[8] = {'H', 'E', 'E', 'D', 'T', 'O', 'K', '2'};
  uint32_t width = 2;  // bytes of an id
  uint32_t largest = 0;
  uint64_t tokens = 0;
  uint64_t sequences = 0;
  uint64_t fingerprint = 0;  // of what the shard was made from
  uint64_t checksum = 0;     // XXH3 of all bytes before this field
};
static_assert(sizeof(ShardTrailer) == 48);

struct ShardData {
  std::unique_ptr<MappedFile> file;  // or the vectors own what is pointed to
  std::vector<uint32_t> own_ids;
  std::vector<uint64_t> own_ends;
  const void* ids = nullptr;
  const uint64_t* ends = nullptr;
  ShardTrailer trailer;
};

/// Writes a shard from the beginning to the end; memory for the sequences' ends only.
class ShardWriter {
 public:
  /// `vocabulary`: ids are below it, which decides their width.
  ShardWriter(const std::filesystem::path& path, int64_t vocabulary);
  void append(std::span<const TokenId> ids);
  void end_sequence() { ends_.push_back(trailer_.tokens); }
  /// Ends an open sequence and puts the file in its place.
  void finish(uint64_t fingerprint);
  int64_t tokens() const { return static_cast<int64_t>(trailer_.tokens); }

 private:
  void write(const void* data, size_t bytes);

  AtomicFile file_;
  StreamingFingerprint checksum_;
  std::string name_;
  ShardTrailer trailer_;
  std::vector<uint64_t> ends_;
  std::vector<uint16_t> narrow_;
  std::vector<uint32_t> wide_;
};

}  // namespace heed
