#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>

// What every other header builds on: errors and stopping, 16-bit numbers, random numbers, threads
// and memory.

/// Marks what the shared library exports; everything else is hidden.
#define HEED_API __attribute__((visibility("default")))

namespace heed {

// Errors and stopping -----------------------------------------------------------------------------

/// Whose fault an error is: who would have to change something.
enum class ErrorKind {
  runtime,  ///< nobody's: the operation failed, or shapes do not fit
  usage,    ///< the caller's: an option or argument makes no sense
  data,     ///< the input's: a model, data file or other untrusted input is bad
};

/// Every error heed throws for user input. The message says what, where and what to do.
class HEED_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Chooses the language in which translated() and the library's own reports are written: "en" (the
/// default) or "ko". Call it once, before threads start.
HEED_API void set_language(std::string_view code);
/// A message of the library, such as `Error::what()` or a finding of validate_weights(), in that
/// language. Messages themselves are English, so that programs can rely on them.
HEED_API std::string translated(const std::string& message);

/// What a computation throws that was asked to stop.
class HEED_API Stopped : public Error {
 public:
  Stopped() : Error(ErrorKind::runtime, "stopped") {}
};

/// While one of these lives, whatever this thread computes throws `Stopped` within milliseconds of
/// a request to stop: the loops inside every op look at `stop` between two tiles. Results under way
/// are lost, so it belongs around work that can be repeated or given up (a forward pass, a
/// prefill), never around an update of parameters.
class HEED_API StopScope {
 public:
  explicit StopScope(std::stop_token stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token stop_;
  const std::stop_token* before_;
};

// Numbers -----------------------------------------------------------------------------------------

/// IEEE half and bfloat16 as stored; arithmetic happens in f32.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
HEED_API float to_float(Half value);
HEED_API float to_float(BFloat16 value);
HEED_API Half to_half(float value);          ///< nearest even
HEED_API BFloat16 to_bfloat16(float value);  ///< nearest even

/// Philox4x32-10: four random words from (seed, stream, position). No state: the same three numbers
/// give the same words on any thread, in any order.
HEED_API std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t position);

/// Where the random numbers of one op come from.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

/// A sequence of random numbers over one (seed, stream): what shuffling, initialisers and samplers
/// use. Copyable; position() and seek() make it resumable.
class HEED_API Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : key_{seed, stream} {}

  uint32_t next_u32();
  uint64_t next_u64();
  /// Uniform in [0, bound), without modulo bias.
  uint64_t below(uint64_t bound);
  /// Uniform in [0, 1).
  double uniform();
  /// Standard normal.
  double normal();

  uint64_t position() const { return position_; }
  void seek(uint64_t position) { position_ = position; }

 private:
  RandomKey key_;
  uint64_t position_ = 0;  // counts words
};

/// The generator behind dropout and the like on this thread: every op takes the next stream.
/// checkpoint() and resume set it back to replay the same masks.
struct RandomState {
  uint64_t seed = 0;
  uint64_t next_stream = 0;
};
HEED_API RandomState random_state();
HEED_API void set_random_state(RandomState state);
HEED_API void manual_seed(uint64_t seed);
HEED_API RandomKey next_random_key();

// Threads and memory ------------------------------------------------------------------------------

/// Number of threads that heed's loops use (the caller's included). Starts as the number of cores
/// this process may run on. Results do not depend on it.
HEED_API int thread_count();

/// Sets it; 1 … 1024, else an error.
HEED_API void set_thread_count(int threads);

/// What the caching allocator holds; see docs/adr/0003-memory.md.
struct MemoryStats {
  int64_t in_use = 0;    ///< bytes in live tensors
  int64_t peak = 0;      ///< the most that was in use since reset_peak_memory()
  int64_t reserved = 0;  ///< bytes asked of the system, in use or kept for reuse
};
HEED_API MemoryStats memory_stats();
HEED_API void reset_peak_memory();
/// Gives the blocks kept for reuse back to the system.
HEED_API void release_cached_memory();

}  // namespace heed
