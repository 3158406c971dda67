#include "io/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "base/check.h"

namespace heed {

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view bytes, const std::string& name, uint64_t limit) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  z_stream stream{};
  check(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK, name, "no memory to unpack it");
  struct Ender {
    z_stream& stream;
    ~Ender() { inflateEnd(&stream); }
  } ender{stream};
  std::string out;
  int status = Z_OK;
  while (!bytes.empty() || status == Z_OK) {
    if (status == Z_STREAM_END) {  // a gzip file may be several, one after the other
      check_data(is_gzip(bytes), name, "has something other than gzip after its end");
      check_data(inflateReset(&stream) == Z_OK, name, "cannot be unpacked");
    }
    const size_t filled = out.size();
    out.resize(filled + kPiece);
    const auto given = static_cast<uInt>(std::min<size_t>(bytes.size(), kPiece));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(kPiece);
    status = inflate(&stream, Z_NO_FLUSH);
    bytes.remove_prefix(given - stream.avail_in);
    const uint64_t made = kPiece - stream.avail_out;
    out.resize(filled + made);
    check_data(status == Z_OK || status == Z_STREAM_END, name, "is a broken or cut gzip file");
    check_data(out.size() <= limit, name, "unpacks to more than {} bytes", limit);
  }
  return out;
}

}  // namespace heed
