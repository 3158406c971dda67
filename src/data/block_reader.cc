#include "data/block_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/longest_line.h"
#include "base/utf8.h"

namespace heed {
namespace {

constexpr size_t kBlock = size_t{1} << 20;
constexpr size_t kPiece = size_t{64} << 10;
constexpr size_t kLargestPiece = size_t{1} << 20;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// A letter, digit or sign of ASCII: beyond it lie other kinds of white space.
bool is_plain(char c) { return static_cast<unsigned char>(c) < 0x80 && !is_space(c); }

/// Bytes before the first that is not part of valid UTF-8.
size_t valid_prefix(std::string_view text) {
  size_t place = 0;
  while (place < text.size()) {
    const size_t length = utf8_sequence(text.substr(place));
    if (length == 0) {
      break;
    }
    place += length;
  }
  return place;
}

}  // namespace

BlockReader::BlockReader(const std::filesystem::path& path) : file_(path.string()) {
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check_data(descriptor_ >= 0, file_, "{}", std::strerror(errno));
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    fail(ErrorKind::data, file_, "is not a regular file");
  }
}

BlockReader::~BlockReader() { close(descriptor_); }

/// Appends up to a block of the file as it is.
void BlockReader::read_block(std::string& buffer) {
  const size_t old = buffer.size();
  buffer.resize(old + kBlock);
  size_t filled = 0;
  while (filled < kBlock) {
    const ssize_t got = read(descriptor_, buffer.data() + old + filled, kBlock - filled);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    check(got >= 0, file_, "cannot be read: {}", std::strerror(errno));
    if (got == 0) {
      break;
    }
    filled += static_cast<size_t>(got);
  }
  buffer.resize(old + filled);
  done_ += static_cast<int64_t>(filled);
}

/// Appends up to one block of decompressed data.
void BlockReader::decompress_block(std::string& buffer) {
  const size_t old = buffer.size();
  buffer.resize(old + kBlock);
  size_t filled = 0;
  bool more = true;
  while (filled < kBlock && more) {
    bool at_end = false;
    if (packed_.size() < 2) {  // the mark of a gzip file, two bytes, is looked at whole
      const int64_t before = done_;
      read_block(packed_);
      at_end = done_ == before;
    }
    std::string_view rest = packed_;
    const size_t made = gzip_->read(rest, buffer.data() + old + filled, kBlock - filled);
    filled += made;
    packed_.erase(0, packed_.size() - rest.size());
    more = made > 0 || !packed_.empty() || !at_end;
  }
  if (!more) {
    gzip_->finish();
  }
  buffer.resize(old + filled);
}

bool BlockReader::append(std::string& buffer) {
  const size_t old = buffer.size();
  if (!begun_) {
    read_block(buffer);
    if (is_gzip(std::string_view(buffer).substr(old))) {
      gzip_ = std::make_unique<GzipReader>(file_);
      packed_ = buffer.substr(old);
      buffer.resize(old);
      decompress_block(buffer);
    }
    if (std::string_view(buffer).substr(old).starts_with("\xef\xbb\xbf")) {
      buffer.erase(old, 3);
      begun_ = true;
      return true;
    }
    begun_ = true;
  } else if (gzip_ != nullptr) {
    decompress_block(buffer);
  } else {
    read_block(buffer);
  }
  return buffer.size() > old;
}

std::string LineReader::where() const { return fmt::format("{}:{}", reader_.file(), line_); }

bool LineReader::next(std::string_view& line) {
  size_t searched = begin_;
  size_t end = buffer_.find('\n', searched);
  while (end == std::string::npos && !ended_) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    ended_ = !reader_.append(buffer_);
    end = buffer_.find('\n', searched);
    check_data(buffer_.size() <= kLongestLine + kBlock, reader_.file(),
               "line {} is longer than {} bytes", line_ + 1, kLongestLine);
  }
  if (end == std::string::npos && begin_ == buffer_.size()) {
    return false;
  }
  ++line_;
  const size_t stop = std::min(end, buffer_.size());
  line = std::string_view(buffer_).substr(begin_, stop - begin_);
  begin_ = std::min(stop + 1, buffer_.size());
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  const size_t valid = valid_prefix(line);
  check_data(valid == line.size(), where(), "byte {} is not UTF-8", valid + 1);
  return true;
}

size_t PieceReader::cut() const {
  const std::string_view text = std::string_view(buffer_).substr(begin_);
  const size_t limit = std::min(text.size(), kLargestPiece);
  for (size_t end = text.find('\n', kPiece); end < limit && end + 1 < text.size();
       end = text.find('\n', end + 1)) {
    if (is_plain(text[end - 1]) && is_plain(text[end + 1])) {
      return end + 1;
    }
  }
  if (text.size() > kLargestPiece) {
    size_t end = kLargestPiece;
    while (end > kLargestPiece - 4 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) {
      --end;
    }
    return end;
  }
  return ended_ ? text.size() : 0;
}

bool PieceReader::next(std::string& piece) {
  size_t length = cut();
  while (length == 0 && !ended_) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    ended_ = !reader_.append(buffer_);
    length = cut();
  }
  piece.assign(buffer_, begin_, length);
  begin_ += length;
  const size_t valid = valid_prefix(piece);
  const auto lines_to = [&](size_t place) {
    return std::count(piece.begin(), piece.begin() + static_cast<int64_t>(place), '\n');
  };
  check_data(valid == piece.size(), reader_.file(), "line {} is not UTF-8",
             line_ + lines_to(valid));
  line_ += lines_to(piece.size());
  return !piece.empty();
}

}  // namespace heed
