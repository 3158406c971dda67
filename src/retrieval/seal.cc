#include "retrieval/seal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file_descriptor.h"
#include "base/parallel.h"
#include "retrieval/database.h"

namespace heed {
namespace {

constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr std::string_view kMark = "HEEDSEAL";  // before the checksum
constexpr size_t kHeader = 100;                 // bytes of SQLite's header
constexpr int64_t kTile = int64_t{4} << 20;     // bytes hashed at a time
constexpr std::array<unsigned char, 8> kJournalMagic = {0xd9, 0xd5, 0x05, 0xf9,
                                                        0x20, 0xa1, 0x63, 0xd7};

class File {
 public:
  File(const std::filesystem::path& path, int flags) : name_(path.native()) {
    descriptor_ = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
    check_data(descriptor_ >= 0, name_, "cannot be opened: {}", std::strerror(errno));
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      fail(ErrorKind::data, name_, "is not a regular file");
    }
    size_ = status.st_size;
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }
  void read(int64_t at, std::span<unsigned char> into) const {
    size_t filled = 0;
    while (filled < into.size()) {
      const ssize_t got = pread(descriptor_, into.data() + filled, into.size() - filled,
                                at + static_cast<int64_t>(filled));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      check_data(got > 0, name_, "cannot be read at byte {}", at + static_cast<int64_t>(filled));
      filled += static_cast<size_t>(got);
    }
  }

 private:
  std::string name_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

uint32_t big_endian(const unsigned char* bytes, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    value = value << 8 | bytes[i];
  }
  return value;
}

struct Header {
  int64_t page_bytes = 0;
  int64_t pages = 0;
};

Header read_header(const File& file, const std::string& name) {
  std::array<unsigned char, kHeader> header{};
  check_data(file.size() >= static_cast<int64_t>(kHeader), name,
             "is no index of heed's (it has {} bytes); make one with `heed index`", file.size());
  file.read(0, header);
  check_data(std::memcmp(header.data(), kMagic.data(), kMagic.size()) == 0, name,
             "is no index of heed's; make one with `heed index`");
  check_data(big_endian(header.data() + 68, 4) == kIndexApplication, name,
             "is an SQLite file, but no index of heed's");
  const uint32_t version = big_endian(header.data() + 60, 4);
  check_data(version == kIndexVersion, name,
             "is an index of version {}; this heed reads version {}: make it again", version,
             kIndexVersion);
  Header result;
  result.page_bytes = big_endian(header.data() + 16, 2);
  result.page_bytes = result.page_bytes == 1 ? 65536 : result.page_bytes;
  result.pages = big_endian(header.data() + 28, 4);
  check_data(result.page_bytes >= 512 && (result.page_bytes & (result.page_bytes - 1)) == 0, name,
             "is damaged: a page size of {}", result.page_bytes);
  return result;
}

/// Where the checksum stands in the file: in the only cell of page 2, a leaf of a table.
int64_t seal_place(const File& file, const Header& header, const std::string& name) {
  std::vector<unsigned char> page(static_cast<size_t>(header.page_bytes));
  check_data(file.size() >= 2 * header.page_bytes, name, "is truncated");
  file.read(header.page_bytes, page);
  const bool leaf = page[0] == 0x0d && big_endian(page.data() + 3, 2) == 1;
  const size_t cell = leaf ? big_endian(page.data() + 8, 2) : page.size();
  constexpr size_t kLongestCell = 32;
  const std::string_view text(reinterpret_cast<const char*>(page.data()), page.size());
  const size_t mark =
      cell < page.size() ? text.substr(cell, kLongestCell).find(kMark) : std::string_view::npos;
  check_data(mark != std::string_view::npos && cell + mark + kMark.size() + 8 <= page.size(), name,
             "is damaged: its checksum is missing; make it again with `heed index`");
  return header.page_bytes + static_cast<int64_t>(cell + mark + kMark.size());
}

/// Over the whole file, the checksum's own bytes taken as zeros. Tiles are hashed in parallel.
uint64_t checksum(const File& file, int64_t seal) {
  const int64_t tiles = (file.size() + kTile - 1) / kTile;
  std::vector<uint64_t> parts(static_cast<size_t>(tiles) + 1);
  parallel_for(tiles, [&](int64_t tile) {
    const int64_t begin = tile * kTile;
    std::vector<unsigned char> bytes(static_cast<size_t>(std::min(kTile, file.size() - begin)));
    file.read(begin, bytes);
    for (int64_t i = seal; i < seal + 8; ++i) {
      if (i >= begin && i < begin + static_cast<int64_t>(bytes.size())) {
        bytes[static_cast<size_t>(i - begin)] = 0;
      }
    }
    parts[static_cast<size_t>(tile)] = fingerprint_of(bytes.data(), bytes.size(), 0);
  });
  parts.back() = static_cast<uint64_t>(file.size());
  const uint64_t sum = fingerprint_of(parts.data(), parts.size() * sizeof(uint64_t), 0);
  return sum == 0 ? 1 : sum;  // 0 stands for no seal
}

/// Whether something has this name; a symbolic link counts whatever it leads to.
bool is_there(const std::filesystem::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

/// Whether the journal of an interrupted transaction stands beside an index. SQLite rolls it back
/// on opening, so it must be one that heed can have written: a journal that ends with the name of a
/// super-journal (as those of transactions over several databases do) makes SQLite delete the file
/// of that name, and one that is a pipe makes it wait forever.
bool has_journal(const std::filesystem::path& index) {
  const std::filesystem::path path = index.native() + "-journal";
  const std::string& name = path.native();
  const FileDescriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!opened.is_open() && errno == ENOENT) {
    return false;
  }
  struct stat status {};
  check_data(opened.is_open() || errno == ELOOP, name, "cannot be opened: {}",
             std::strerror(errno));
  check_data(opened.is_open() && fstat(opened.get(), &status) == 0 && S_ISREG(status.st_mode), name,
             "is not a regular file, as the journal of an index is; remove it");
  constexpr off_t kSuperJournal = 16;  // bytes: length of the name, checksum, magic
  std::array<unsigned char, kJournalMagic.size()> end{};
  if (status.st_size >= kSuperJournal) {
    const off_t at = status.st_size - static_cast<off_t>(end.size());
    check_data(pread(opened.get(), end.data(), end.size(), at) == static_cast<ssize_t>(end.size()),
               name, "cannot be read at byte {}", at);
    check_data(end != kJournalMagic, name,
               "is no journal of heed's: it names a file that SQLite would delete; remove it");
  }
  return true;
}

}  // namespace

SealState check_index_file(const std::filesystem::path& path) {
  const std::string& name = path.native();
  const File file(path, O_RDONLY);
  const Header header = read_header(file, name);
  // SQLite looks for these beside the file that a link leads to.
  std::error_code unknown;
  std::filesystem::path target = std::filesystem::canonical(path, unknown);
  target = unknown ? path : target;
  const std::string log = target.native() + "-wal";
  check_data(!is_there(log), log,
             "stands beside an index, whose contents it would replace; heed writes no such file: "
             "remove it");
  if (has_journal(target)) {
    return SealState::unfinished;  // a transaction was cut short: SQLite rolls it back on opening
  }
  check_data(file.size() >= header.pages * header.page_bytes, name,
             "is truncated: {} bytes, {} are wanted; make it again with `heed index`", file.size(),
             header.pages * header.page_bytes);
  const int64_t place = seal_place(file, header, name);
  std::array<unsigned char, 8> stored{};
  file.read(place, stored);
  uint64_t wanted = 0;
  std::memcpy(&wanted, stored.data(), sizeof(wanted));
  if (wanted == 0) {
    return SealState::unfinished;
  }
  check_data(checksum(file, place) == wanted, name,
             "does not match its checksum: it was altered or damaged since it was written; make it "
             "again with `heed index`");
  return SealState::sealed;
}

void create_seal(const Database& database) {
  database.execute("CREATE TABLE seal(id INTEGER PRIMARY KEY, value BLOB NOT NULL)");
  database.execute("INSERT INTO seal VALUES(1, x'484545445345414C0000000000000000')");
}

void break_seal(const Database& database) {
  database.execute("UPDATE seal SET value = x'484545445345414C0000000000000000' WHERE id = 1");
}

void write_seal(const Database& database) {
  check(database.integer("SELECT rootpage FROM sqlite_master WHERE name = 'seal'") == 2, "index",
        "the seal is not on page 2");
  // Under SQLite's lock; the descriptor is closed after it, as closing one gives up all locks that
  // a process has on a file.
  database.execute("BEGIN EXCLUSIVE");
  const File file(database.path(), O_RDWR);
  const std::string name = database.path().native();
  const int64_t place = seal_place(file, read_header(file, name), name);
  const uint64_t sum = checksum(file, place);
  const bool written = pwrite(file.descriptor(), &sum, sizeof(sum), place) == sizeof(sum) &&
                       fsync(file.descriptor()) == 0;
  const int problem = errno;
  database.execute("ROLLBACK");
  check(written, name, "cannot be written: {}", std::strerror(problem));
}

}  // namespace heed
