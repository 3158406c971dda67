#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/output_file.h"

namespace heed {

struct GuardedRange;

/// A regular file mapped read-only. Directories, FIFOs and devices are refused. If another process
/// truncates the file, the missing part reads as zeros and check_not_truncated() throws.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// Throws if the file is now shorter than when it was mapped, or a part could not be read.
  void check_not_truncated() const;

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  GuardedRange* guard_ = nullptr;
};

/// Returns the pages of a part of a mapped file to the system; they are loaded again on access.
void drop_pages(std::span<const std::byte> part);

/// Reads a whole regular file; throws if it has more than `limit` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t limit = uint64_t{1} << 40);

/// Creates the folder and its parents; throws an error that names it.
void make_folder(const std::filesystem::path& folder);

}  // namespace heed
