#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace heed {

/// Bytes of an audio file, wherever they are.
struct AudioBytes {
  std::string name;  ///< for messages
  int64_t size = 0;
  /// Reads exactly `count` bytes from `offset` on; throws where that fails.
  std::function<void(int64_t offset, void* data, int64_t count)> read_at;
};

/// The interface of a C library to AudioBytes: a position, and errors that are thrown later,
/// because no exception may pass through the library.
class AudioCursor {
 public:
  explicit AudioCursor(const AudioBytes& bytes) : bytes_(bytes) {}

  int64_t size() const { return bytes_.size; }
  int64_t position() const { return position_; }
  /// Reads up to `count` bytes; fewer at the end of the file and after an error.
  int64_t read(void* data, int64_t count);
  /// As fseek() and ftell() together: the new position, or -1 for one outside the file.
  int64_t seek(int64_t offset, int whence);
  /// Throws what read() ran into.
  void check() const;

 private:
  const AudioBytes& bytes_;
  int64_t position_ = 0;
  std::exception_ptr problem_;
};

/// Frames of an audio file, in order.
class AudioDecoder {
 public:
  virtual ~AudioDecoder() = default;
  int64_t channels() const { return channels_; }
  int64_t sample_rate() const { return sample_rate_; }  ///< in Hz
  /// Writes up to `count` frames [count, channels] to `frames`; fewer only at the end. Throws kind
  /// data if the file is broken.
  virtual int64_t read(float* frames, int64_t count) = 0;

 protected:
  int64_t channels_ = 0, sample_rate_ = 0;
};

/// MPEG audio (MP3) with libmpg123: libsndfile, which reads it, too, lets libmpg123 print its
/// remarks on malformed files to stderr.
bool is_mpeg_audio(const AudioBytes& bytes);
std::unique_ptr<AudioDecoder> open_mpeg_audio(const AudioBytes& bytes);

/// WAV, FLAC, OGG and whatever else libsndfile reads.
std::unique_ptr<AudioDecoder> open_sound_file(const AudioBytes& bytes);

}  // namespace heed
