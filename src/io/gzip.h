#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace heed {

bool is_gzip(std::string_view bytes);

/// Unpacks a gzip file piece by piece; a file may be several, one after the other.
class Unpacker {
 public:
  /// `name` is for messages.
  explicit Unpacker(std::string name);
  ~Unpacker();
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  /// Takes from the front of `packed` and writes at most `room` bytes; gives how many.
  size_t unpack(std::string_view& packed, char* out, size_t room);
  /// After the last byte: refuses a file that was cut.
  void finish() const;

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  std::string name_;
};

/// The content of a gzip file, refused beyond `limit` bytes.
std::string gunzip(std::string_view bytes, const std::string& name, uint64_t limit);

}  // namespace heed
