#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/data.h"

namespace heed {

/// The files that "a.txt,folder" names: folders give all regular files in them, at any depth, in
/// the order of their names. Throws where one is absent or there are none.
std::vector<std::filesystem::path> expand_files(const std::string& data);

/// The two files of "a.en,b.de" or "train.{en,de}"; empty where `data` is one file.
std::vector<std::filesystem::path> expand_two_files(const std::string& data);

/// Size, time of the last change and samples of the content of all files.
uint64_t fingerprint_of_files(const std::vector<std::filesystem::path>& files, uint64_t seed);
uint64_t fingerprint_of_tokenizer(const Tokenizer& tokenizer, uint64_t seed);

int64_t total_bytes(const std::vector<std::filesystem::path>& files);

}  // namespace heed
