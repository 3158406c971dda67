#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace heed {

/// The one way to write a file. A regular file, or one that does not exist yet, is replaced in one
/// step by commit(): a reader, or a computer that lost power, sees the whole old file or the whole
/// new one. Symbolic links are followed and stay links; mode and owner of the old file are kept.
/// Devices, FIFOs and /proc/self/fd are written through.
///
/// Data goes to a temporary file in the same folder, opened with O_EXCL | O_NOFOLLOW under an
/// unpredictable name that is_temporary_file() recognises. Without commit() the destructor removes
/// it.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Syncs the data, renames the temporary file and syncs the folder.
  void commit();

 private:
  bool replaces() const { return !temporary_.empty(); }
  void open_temporary(mode_t mode);
  [[noreturn]] void fail_writing(std::string_view why) const;

  std::filesystem::path path_;       // as the caller gave it, for messages
  std::filesystem::path target_;     // links followed
  std::filesystem::path temporary_;  // empty: written through
  int descriptor_ = -1;
  int slot_ = -1;  // in the list of open temporaries
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Removes the temporary files of all AtomicFiles that are open now. Async-signal-safe: for
/// handlers that end the process.
void remove_open_temporaries() noexcept;

/// True for names that AtomicFile and temporary_name() make.
bool is_temporary_file(const std::filesystem::path& path);
/// `path` with an unpredictable ending, in the same folder.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// fsync of a folder, so that a rename in it survives a power failure.
void sync_folder(const std::filesystem::path& folder);

}  // namespace heed
