#pragma once

#include <filesystem>

// AtomicFile (base/file.h) writes to a temporary file in the folder of its target, opened with
// O_EXCL | O_NOFOLLOW under an unpredictable name, and holds a lock on it.

namespace heed {

/// `path` with an unpredictable ending, in the same folder.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// True for names that temporary_name() makes.
bool is_temporary_file(const std::filesystem::path& path);

/// Throws what AtomicFile would throw where this file cannot be written, and changes nothing: for
/// commands that write at their end what took them long.
void check_can_write(const std::filesystem::path& path);

/// Removes the temporary files of all AtomicFiles that are open now. Async-signal-safe: for
/// handlers that end the process.
void remove_open_temporaries() noexcept;

}  // namespace heed
