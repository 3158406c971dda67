#include "data/shard.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"

namespace heed {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr size_t kWindow = size_t{4} << 20;  // bytes of a mapped file that are in memory at a time

template <class Id>
uint32_t largest_id(const ShardData& data) {
  const std::span<const Id> ids(static_cast<const Id*>(data.ids), data.trailer.tokens);
  uint32_t largest = 0;
  for (size_t begin = 0; begin < ids.size(); begin += kWindow / sizeof(Id)) {
    const auto part = ids.subspan(begin, std::min(kWindow / sizeof(Id), ids.size() - begin));
    largest = std::max(largest, static_cast<uint32_t>(*std::max_element(part.begin(), part.end())));
    drop_pages(std::as_bytes(part));
  }
  return largest;
}

/// Reads all of the file: a damaged shard would train a model on wrong data without a word.
void check_content(const ShardData& data, const std::string& file) {
  const std::span<const std::byte> bytes = data.file->bytes();
  constexpr size_t kChecksumBytes = sizeof(ShardTrailer::checksum);
  StreamingFingerprint checksum;
  const std::span content = bytes.first(bytes.size() - kChecksumBytes);
  for (size_t begin = 0; begin < content.size(); begin += kWindow) {
    const auto part = content.subspan(begin, std::min(kWindow, content.size() - begin));
    checksum.update(part.data(), part.size());
    drop_pages(part);
  }
  check_data(checksum.digest() == data.trailer.checksum, file, "does not match its checksum");
  const uint32_t largest =
      data.trailer.width == 2 ? largest_id<uint16_t>(data) : largest_id<uint32_t>(data);
  check_data(largest == data.trailer.largest, file, "declares {} as its largest id; it is {}",
             data.trailer.largest, largest);
  data.file->check_not_truncated();
}

template <class Id>
int64_t first_at_least(const ShardData& data, int64_t vocabulary) {
  const Id* ids = static_cast<const Id*>(data.ids);
  const Id* end = ids + data.trailer.tokens;
  return std::find_if(ids, end, [&](Id id) { return id >= vocabulary; }) - ids;
}

void check_ends(const ShardData& data, const std::string& file) {
  uint64_t last = 0;
  for (uint64_t i = 0; i < data.trailer.sequences; ++i) {
    check_data(data.ends[i] >= last && data.ends[i] <= data.trailer.tokens, file,
               "sequence {} ends at token {}, which cannot be", i, data.ends[i]);
    last = data.ends[i];
  }
  check_data(last == data.trailer.tokens, file, "{} of {} tokens belong to no sequence",
             data.trailer.tokens - last, data.trailer.tokens);
}

}  // namespace

ShardWriter::ShardWriter(const std::filesystem::path& path, int64_t vocabulary)
    : file_(path), name_(path.string()) {
  trailer_.width = vocabulary <= 65536 ? 2 : 4;
}

void ShardWriter::append(std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    check(id >= 0 && id <= (trailer_.width == 4 ? UINT32_MAX : UINT16_MAX), name_,
          "id {} at token {} has no room", id, trailer_.tokens);
    trailer_.largest = std::max(trailer_.largest, static_cast<uint32_t>(id));
  }
  if (trailer_.width == 2) {
    narrow_.assign(ids.begin(), ids.end());
    write(narrow_.data(), narrow_.size() * sizeof(uint16_t));
  } else {
    wide_.assign(ids.begin(), ids.end());
    write(wide_.data(), wide_.size() * sizeof(uint32_t));
  }
  trailer_.tokens += ids.size();
}

void ShardWriter::finish(uint64_t fingerprint) {
  if (trailer_.tokens > (ends_.empty() ? 0 : ends_.back())) {
    end_sequence();
  }
  const char zeros[8] = {};
  write(zeros, (8 - trailer_.tokens * trailer_.width % 8) % 8);
  write(ends_.data(), ends_.size() * sizeof(uint64_t));
  trailer_.sequences = ends_.size();
  trailer_.fingerprint = fingerprint;
  checksum_.update(&trailer_, offsetof(ShardTrailer, checksum));
  trailer_.checksum = checksum_.digest();
  file_.write(&trailer_, sizeof(trailer_));
  file_.commit();
}

void ShardWriter::write(const void* data, size_t bytes) {
  checksum_.update(data, bytes);
  file_.write(data, bytes);
}

TokenShard TokenShard::open(const std::filesystem::path& path) {
  auto data = std::make_shared<ShardData>();
  data->file = std::make_unique<MappedFile>(path);
  const std::span<const std::byte> bytes = data->file->bytes();
  ShardTrailer& trailer = data->trailer;
  const std::string file = path.string();
  check_data(bytes.size() >= sizeof(trailer), file, "is too short for a token shard");
  std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof(trailer), sizeof(trailer));
  check_data(std::memcmp(trailer.magic, ShardTrailer().magic, sizeof(trailer.magic)) == 0, file,
             "is not a token shard, or is truncated");
  check_data(trailer.width == 2 || trailer.width == 4, file, "has ids of {} bytes", trailer.width);
  const uint64_t room = bytes.size() - sizeof(trailer);
  check_data(trailer.tokens <= room / trailer.width && trailer.sequences <= room / 8, file,
             "claims {} tokens in {} sequences, more than it has bytes for", trailer.tokens,
             trailer.sequences);
  const uint64_t ids_bytes = (trailer.tokens * trailer.width + 7) / 8 * 8;
  check_data(ids_bytes + trailer.sequences * 8 == room, file, "has {} bytes; {} are wanted", room,
             ids_bytes + trailer.sequences * 8);
  data->ids = bytes.data();
  data->ends = reinterpret_cast<const uint64_t*>(bytes.data() + ids_bytes);
  check_ends(*data, file);
  check_content(*data, file);
  return TokenShard(std::move(data));
}

TokenShard TokenShard::from(const std::vector<std::vector<TokenId>>& sequences) {
  auto data = std::make_shared<ShardData>();
  for (const std::vector<TokenId>& sequence : sequences) {
    for (const TokenId id : sequence) {
      check(id >= 0 && id <= UINT32_MAX, "tokens", "id {} at token {} is not in 0 … {}", id,
            data->own_ids.size(), UINT32_MAX);
      data->own_ids.push_back(static_cast<uint32_t>(id));
      data->trailer.largest = std::max(data->trailer.largest, data->own_ids.back());
    }
    data->own_ends.push_back(data->own_ids.size());
  }
  data->ids = data->own_ids.data();
  data->ends = data->own_ends.data();
  data->trailer.width = 4;
  data->trailer.tokens = data->own_ids.size();
  data->trailer.sequences = data->own_ends.size();
  const uint64_t ends = fingerprint_of(data->own_ends.data(), data->own_ends.size() * 8, 0);
  data->trailer.fingerprint = fingerprint_of(data->own_ids.data(), data->own_ids.size() * 4, ends);
  return TokenShard(std::move(data));
}

int64_t TokenShard::tokens() const { return static_cast<int64_t>(data_->trailer.tokens); }
int64_t TokenShard::sequences() const { return static_cast<int64_t>(data_->trailer.sequences); }
uint64_t TokenShard::fingerprint() const { return data_->trailer.fingerprint; }

int64_t TokenShard::begin(int64_t sequence) const {
  return sequence == 0 ? 0 : static_cast<int64_t>(data_->ends[sequence - 1]);
}

int64_t TokenShard::length(int64_t sequence) const {
  return static_cast<int64_t>(data_->ends[sequence]) - begin(sequence);
}

TokenId TokenShard::token(int64_t place) const {
  int64_t id = 0;
  copy(place, 1, &id);
  return id;
}

void TokenShard::copy(int64_t place, int64_t count, int64_t* out) const {
  check(place >= 0 && count >= 0 && count <= tokens() - place, "tokens",
        "{} ids from {} on do not lie within {}", count, place, tokens());
  if (data_->trailer.width == 2) {
    std::copy_n(static_cast<const uint16_t*>(data_->ids) + place, count, out);
  } else {
    std::copy_n(static_cast<const uint32_t*>(data_->ids) + place, count, out);
  }
}

void TokenShard::check_vocabulary(int64_t vocabulary, std::string_view what) const {
  if (tokens() == 0 || data_->trailer.largest < vocabulary) {
    return;
  }
  const int64_t place = data_->trailer.width == 2 ? first_at_least<uint16_t>(*data_, vocabulary)
                                                  : first_at_least<uint32_t>(*data_, vocabulary);
  check_data(place < tokens(), what, "its ids are not below {}; make the shard again", vocabulary);
  fail(ErrorKind::data, what, "id {} at token {} is not below the vocabulary's size {}",
       token(place), place, vocabulary);
}

}  // namespace heed
