#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

/// What libFuzzer and our driver call with each input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace heed::fuzz {

/// Runs `read`; an Error is what bad input is to give, anything else ends the program.
void expect_error_or_success(const std::function<void()>& read);

/// Calls fn with the path of a file that holds the input.
void with_file(const uint8_t* data, size_t size,
               const std::function<void(const std::filesystem::path&)>& fn);

}  // namespace heed::fuzz
