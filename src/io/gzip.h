#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace heed {

bool is_gzip(std::string_view bytes);

/// Decompresses a gzip file incrementally; a file may consist of several concatenated members.
/// Refuses a decompression bomb: data that has grown beyond 64 MiB and is more than 128 times as
/// large as its compressed form. Text compresses 3 to 20 times, and deflate at most 1032 times.
class GzipReader {
 public:
  /// `name` is for messages.
  explicit GzipReader(std::string name);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Consumes from the front of `packed`, writes at most `capacity` bytes to `out` and returns how
  /// many were written.
  size_t read(std::string_view& packed, char* out, size_t capacity);
  /// To be called after the last byte: throws if the file is truncated.
  void finish() const;

 private:
  struct Stream;
  void check_expansion(size_t consumed, size_t produced);

  std::unique_ptr<Stream> stream_;
  std::string name_;
  uint64_t consumed_ = 0;
  uint64_t produced_ = 0;
};

/// Decompresses a whole gzip file; throws if the result has more than `limit` bytes.
std::string gunzip(std::string_view bytes, const std::string& name, uint64_t limit);

}  // namespace heed
