#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text.h"

// A fuzz target is one file fuzz/NAME.cc:
//
//   HEED_FUZZ_TARGET(name) { … reads `input` … }
//
// ./dev fuzz NAME SECONDS runs it with libFuzzer; ./dev test runs it with fuzz_replay on its corpus
// fuzz/seeds/NAME.

namespace heed::fuzz {

using Target = void (*)(std::string_view input);

struct NamedTarget {
  const char* name;
  Target run;
};
std::vector<NamedTarget>& targets();

struct Registration {
  Registration(const char* name, Target run) { targets().push_back({name, run}); }
};

/// Runs `read`. An Error of kind data with a message of one printable line is the right answer to
/// bad input; anything else ends the process.
void expect_error_or_success(const std::function<void()>& read);

/// Makes `input` the content of a file, which nobody else may replace.
void write_input(const std::filesystem::path& path, std::string_view input);

/// Calls `fn` with the path of a file that holds `input`; `ending` such as ".csv" chooses a reader.
void with_file(std::string_view input, const std::string& ending,
               const std::function<void(const std::filesystem::path&)>& fn);

/// Sends texts through a tokenizer and back. An id outside its vocabulary ends the process.
void encode_and_decode(const Tokenizer& tokenizer);

/// Takes numbers from the front of an input; zeros once it is used up.
class Bytes {
 public:
  explicit Bytes(std::string_view input) : rest_(input) {}
  uint8_t byte();
  int64_t between(int64_t low, int64_t high);  ///< both included
  float value();                               ///< finite, mostly of moderate size

 private:
  std::string_view rest_;
};

}  // namespace heed::fuzz

#define HEED_FUZZ_TARGET(name)                                                   \
  static void fuzz_##name(std::string_view input);                               \
  static const heed::fuzz::Registration registration_##name(#name, fuzz_##name); \
  static void fuzz_##name([[maybe_unused]] std::string_view input)
