#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "base/check.h"

namespace heed {

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

struct GzipReader::Stream {
  z_stream zlib{};
  bool ended = false;  // the last member has ended

  ~Stream() { inflateEnd(&zlib); }
};

GzipReader::GzipReader(std::string name)
    : stream_(std::make_unique<Stream>()), name_(std::move(name)) {
  check(inflateInit2(&stream_->zlib, 16 + MAX_WBITS) == Z_OK, name_,
        "not enough memory to decompress it");
}

GzipReader::~GzipReader() = default;

size_t GzipReader::read(std::string_view& packed, char* out, size_t capacity) {
  constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits
  if (stream_->ended && !packed.empty()) {
    check_data(is_gzip(packed), name_, "has data other than gzip after the end of the gzip stream");
    check_data(inflateReset(&stream_->zlib) == Z_OK, name_, "cannot be decompressed");
    stream_->ended = false;
  }
  if (stream_->ended) {
    return 0;
  }
  z_stream& zlib = stream_->zlib;
  const size_t given = std::min(packed.size(), kMost);
  const size_t wanted = std::min(capacity, kMost);
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  zlib.avail_in = static_cast<uInt>(given);
  zlib.next_out = reinterpret_cast<Bytef*>(out);
  zlib.avail_out = static_cast<uInt>(wanted);
  const int status = inflate(&zlib, Z_NO_FLUSH);
  const size_t made = wanted - zlib.avail_out;
  // Z_BUF_ERROR: more input or capacity is needed, which is no error yet.
  check_data(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, name_,
             "is a corrupt or truncated gzip file");
  packed.remove_prefix(given - zlib.avail_in);
  check_expansion(given - zlib.avail_in, made);
  stream_->ended = status == Z_STREAM_END;
  return made;
}

void GzipReader::check_expansion(size_t consumed, size_t produced) {
  constexpr uint64_t kAlwaysAllowed = uint64_t{64} << 20;
  constexpr uint64_t kLargestRatio = 128;
  consumed_ += consumed;
  produced_ += produced;
  check_data(
      produced_ <= kAlwaysAllowed || produced_ / kLargestRatio <= consumed_, name_,
      "decompresses to more than {} bytes from {}: refused as a decompression bomb; decompress "
      "it yourself if you trust it",
      produced_, consumed_);
}

void GzipReader::finish() const {
  check_data(stream_->ended, name_, "is a corrupt or truncated gzip file");
}

std::string gunzip(std::string_view bytes, const std::string& name, uint64_t limit) {
  constexpr size_t kChunk = size_t{1} << 20;
  GzipReader reader(name);
  std::string out;
  size_t filled = 0;
  for (;;) {
    if (filled == out.size()) {  // members may be empty, and there may be many of them
      out.resize(filled + std::min<uint64_t>(kChunk, limit - filled + 1));
    }
    const size_t made = reader.read(bytes, out.data() + filled, out.size() - filled);
    filled += made;
    check_data(filled <= limit, name, "decompresses to more than {} bytes", limit);
    if (made == 0 && bytes.empty()) {
      break;
    }
  }
  out.resize(filled);
  reader.finish();
  return out;
}

}  // namespace heed
