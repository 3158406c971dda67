#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "base/check.h"

namespace heed {

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

struct Unpacker::Stream {
  z_stream zlib{};
  bool ended = false;  // of the last of the files in the file

  ~Stream() { inflateEnd(&zlib); }
};

Unpacker::Unpacker(std::string name) : stream_(std::make_unique<Stream>()), name_(std::move(name)) {
  check(inflateInit2(&stream_->zlib, 16 + MAX_WBITS) == Z_OK, name_, "no memory to unpack it");
}

Unpacker::~Unpacker() = default;

size_t Unpacker::unpack(std::string_view& packed, char* out, size_t room) {
  constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits
  if (stream_->ended && !packed.empty()) {
    check_data(is_gzip(packed), name_, "has something other than gzip after its end");
    check_data(inflateReset(&stream_->zlib) == Z_OK, name_, "cannot be unpacked");
    stream_->ended = false;
  }
  if (stream_->ended) {
    return 0;
  }
  z_stream& zlib = stream_->zlib;
  const size_t given = std::min(packed.size(), kMost);
  const size_t wanted = std::min(room, kMost);
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  zlib.avail_in = static_cast<uInt>(given);
  zlib.next_out = reinterpret_cast<Bytef*>(out);
  zlib.avail_out = static_cast<uInt>(wanted);
  const int status = inflate(&zlib, Z_NO_FLUSH);
  const size_t made = wanted - zlib.avail_out;
  const bool starved = status == Z_BUF_ERROR && zlib.avail_in == 0;  // more must come: no fault yet
  check_data(status == Z_OK || status == Z_STREAM_END || starved, name_,
             "is a broken or cut gzip file");
  packed.remove_prefix(given - zlib.avail_in);
  stream_->ended = status == Z_STREAM_END;
  return made;
}

void Unpacker::finish() const { check_data(stream_->ended, name_, "is a broken or cut gzip file"); }

std::string gunzip(std::string_view bytes, const std::string& name, uint64_t limit) {
  constexpr size_t kPiece = size_t{1} << 20;
  Unpacker unpacker(name);
  std::string out;
  for (;;) {
    const size_t filled = out.size();
    out.resize(filled + kPiece);
    const size_t made = unpacker.unpack(bytes, out.data() + filled, kPiece);
    out.resize(filled + made);
    check_data(out.size() <= limit, name, "unpacks to more than {} bytes", limit);
    if (made == 0 && bytes.empty()) {
      break;
    }
  }
  unpacker.finish();
  return out;
}

}  // namespace heed
