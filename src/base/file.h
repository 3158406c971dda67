#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "heed/runtime.h"

namespace heed {

struct GuardedRange;

/// A regular file mapped read-only. Directories, FIFOs and devices are refused. Where another
/// process cuts the file, what is gone reads as zeros and check_not_truncated() throws.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// Throws where the file is now shorter than when it was mapped, or a part could not be read.
  void check_not_truncated() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  GuardedRange* guard_ = nullptr;
};

/// Gives the pages of a mapped file's part back to the system; they come again when it is read.
void drop_pages(std::span<const std::byte> part);

/// A regular file that is read in parts, for what must not be in memory as a whole.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);

  /// Bytes of the file when it was opened.
  uint64_t size() const { return size_; }
  /// Reads exactly `bytes` from `offset` on; throws where the file ends before.
  void read_at(uint64_t offset, void* data, size_t bytes) const;

 private:
  std::filesystem::path path_;
  uint64_t size_ = 0;
  FileDescriptor descriptor_;
};

/// The whole of a regular file, refused beyond `limit` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t limit = uint64_t{1} << 40);

/// Writes next to `path` under a temporary name; commit() does fsync, rename, fsync of the folder.
/// Without commit() the destructor removes the temporary. The old file stays whole until then.
class HEED_API AtomicFile {  // exported for heed::lessons
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// fsync of a folder, so that a rename in it survives a power cut.
void sync_folder(const std::filesystem::path& folder);

/// Makes the folder and its parents, with an error that names it where that fails.
HEED_API void make_folder(const std::filesystem::path& folder);

}  // namespace heed
