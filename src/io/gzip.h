#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace heed {

bool is_gzip(std::string_view bytes);

/// Decompresses a gzip file incrementally; a file may consist of several concatenated members.
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
  std::unique_ptr<Stream> stream_;
  std::string name_;
};

/// The content of a gzip file, refused beyond `limit` bytes.
std::string gunzip(std::string_view bytes, const std::string& name, uint64_t limit);

}  // namespace heed
