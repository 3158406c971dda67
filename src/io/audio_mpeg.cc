#include <mpg123.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/check.h"
#include "io/audio_decoder.h"

namespace heed {
namespace {

constexpr int64_t kTagHeader = 10;  // bytes of an ID3v2 tag before what it holds

/// The bytes at `offset`, zeros behind the end.
template <size_t N>
std::array<uint8_t, N> bytes_at(const AudioBytes& bytes, int64_t offset) {
  std::array<uint8_t, N> out{};
  AudioCursor cursor(bytes);
  if (cursor.seek(offset, SEEK_SET) >= 0) {
    cursor.read(out.data(), N);
    cursor.check();
  }
  return out;
}

class MpegAudio final : public AudioDecoder {
 public:
  explicit MpegAudio(const AudioBytes& bytes) : name_(bytes.name), cursor_(bytes) {
    file_.reset(mpg123_new(nullptr, nullptr));
    mpg123_handle* file = file_.get();
    if (file == nullptr) {
      throw std::bad_alloc();
    }
    constexpr long kFlags =
        MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS | MPG123_NO_FRANKENSTEIN;
    mpg123_param(file, MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0.0);
    mpg123_param(file, MPG123_ADD_FLAGS, kFlags, 0.0);
    mpg123_replace_reader_handle(file, read_bytes, seek_bytes, nullptr);
    mpg123_open_handle(file, &cursor_);  // where it fails, there is no format
    long rate = 0;
    int channels = 0;
    int encoding = 0;
    const int result = mpg123_getformat(file, &rate, &channels, &encoding);
    cursor_.check();
    check_data(result == MPG123_OK, name_,
               "is no audio that can be read; use WAV, FLAC, OGG or MP3");
    check(encoding == MPG123_ENC_FLOAT_32, "decode_audio", "libmpg123 does not decode to f32");
    channels_ = channels;
    sample_rate_ = rate;
  }

  int64_t read(float* frames, int64_t count) override {
    const auto frame = static_cast<size_t>(channels_) * sizeof(float);
    const size_t wanted = static_cast<size_t>(count) * frame;
    size_t got = 0;
    int result = MPG123_OK;
    while (got < wanted && result == MPG123_OK) {
      size_t done = 0;
      result = mpg123_read(file_.get(), reinterpret_cast<unsigned char*>(frames) + got,
                           wanted - got, &done);
      got += done;
    }
    cursor_.check();
    check_data(result == MPG123_OK || result == MPG123_DONE, name_,
               "is broken: its sound cannot be decoded");
    return static_cast<int64_t>(got / frame);
  }

 private:
  static ssize_t read_bytes(void* self, void* data, size_t count) {
    return static_cast<AudioCursor*>(self)->read(data, static_cast<int64_t>(count));
  }
  static off_t seek_bytes(void* self, off_t offset, int whence) {
    return static_cast<AudioCursor*>(self)->seek(offset, whence);
  }
  struct Close {
    void operator()(mpg123_handle* file) const { mpg123_delete(file); }
  };

  std::string name_;
  AudioCursor cursor_;
  std::unique_ptr<mpg123_handle, Close> file_;
};

}  // namespace

bool is_mpeg_audio(const AudioBytes& bytes) {
  constexpr int kMostTags = 16;
  int64_t begin = 0;
  for (int tag = 0; tag < kMostTags; ++tag) {
    const auto head = bytes_at<kTagHeader>(bytes, begin);
    if (head[0] != 'I' || head[1] != 'D' || head[2] != '3') {
      return head[0] == 0xFF && (head[1] & 0xE0) == 0xE0;  // the mark that every frame begins with
    }
    int64_t size = 0;
    for (size_t i = 6; i < kTagHeader; ++i) {
      size = size << 7 | (head[i] & 0x7F);
    }
    begin += kTagHeader + size;
  }
  return true;  // nothing else has as many tags; libmpg123 decides
}

std::unique_ptr<AudioDecoder> open_mpeg_audio(const AudioBytes& bytes) {
  return std::make_unique<MpegAudio>(bytes);
}

}  // namespace heed
