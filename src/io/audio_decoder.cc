#include "io/audio_decoder.h"

#include <sndfile.h>

#include <algorithm>
#include <cstdio>

#include "base/check.h"

namespace heed {
namespace {

/// libsndfile's view of the bytes.
class SoundFile final : public AudioDecoder {
 public:
  explicit SoundFile(const AudioBytes& bytes) : name_(bytes.name), cursor_(bytes) {
    SF_VIRTUAL_IO calls{
        [](void* self) -> sf_count_t { return static_cast<AudioCursor*>(self)->size(); },
        [](sf_count_t offset, int whence, void* self) -> sf_count_t {
          return static_cast<AudioCursor*>(self)->seek(offset, whence);
        },
        [](void* out, sf_count_t count, void* self) -> sf_count_t {
          return static_cast<AudioCursor*>(self)->read(out, count);
        },
        [](const void*, sf_count_t, void*) -> sf_count_t { return 0; },
        [](void* self) -> sf_count_t { return static_cast<AudioCursor*>(self)->position(); }};
    SF_INFO info{};
    file_.reset(sf_open_virtual(&calls, SFM_READ, &info, &cursor_));
    cursor_.check();
    check_data(file_ != nullptr, name_, "is no audio that can be read; use WAV, FLAC, OGG or MP3");
    channels_ = info.channels;
    sample_rate_ = info.samplerate;
  }

  int64_t read(float* frames, int64_t count) override {
    const sf_count_t got = sf_readf_float(file_.get(), frames, count);
    cursor_.check();
    check_data(sf_error(file_.get()) == SF_ERR_NO_ERROR, name_,
               "is broken: its sound cannot be decoded");
    return got;
  }

 private:
  struct Close {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };
  std::string name_;
  AudioCursor cursor_;
  std::unique_ptr<SNDFILE, Close> file_;
};

}  // namespace

int64_t AudioCursor::read(void* data, int64_t count) {
  const int64_t given = std::clamp<int64_t>(bytes_.size - position_, 0, count);
  if (problem_ != nullptr) {
    return 0;
  }
  try {
    bytes_.read_at(position_, data, given);
  } catch (...) {
    problem_ = std::current_exception();
    return 0;
  }
  position_ += given;
  return given;
}

int64_t AudioCursor::seek(int64_t offset, int whence) {
  const int64_t base = whence == SEEK_CUR ? position_ : whence == SEEK_END ? bytes_.size : 0;
  const int64_t wanted = base + offset;
  if (wanted < 0 || wanted > bytes_.size) {
    return -1;
  }
  return position_ = wanted;
}

void AudioCursor::check() const {
  if (problem_ != nullptr) {
    std::rethrow_exception(problem_);
  }
}

std::unique_ptr<AudioDecoder> open_sound_file(const AudioBytes& bytes) {
  return std::make_unique<SoundFile>(bytes);
}

}  // namespace heed
