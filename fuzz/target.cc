#include "fuzz/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/file_descriptor.h"
#include "base/printable.h"
#include "heed/runtime.h"

namespace heed::fuzz {

std::vector<NamedTarget>& targets() {
  static std::vector<NamedTarget> all;
  return all;
}

void expect_error_or_success(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || error.what()[0] == '\0') {
      std::fprintf(stderr, "an error of the wrong kind: %s\n", printable(error.what()).c_str());
      std::abort();
    }
  }
}

void encode_and_decode(const Tokenizer& tokenizer) {
  for (const std::string_view text : {"", "a", "the cat  sat\n", "역사를 배운다", "\xff\xfe a"}) {
    const std::vector<TokenId> ids = tokenizer.encode_ids(text);
    for (const TokenId id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) {
        std::abort();
      }
    }
    tokenizer.decode(ids);
  }
}

void write_input(const std::filesystem::path& path, std::string_view input) {
  static std::map<std::string, FileDescriptor> files;  // opening costs more than writing
  FileDescriptor& file = files[path.native()];
  if (!file.is_open()) {
    file = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  const auto size = static_cast<off_t>(input.size());
  if (ftruncate(file.get(), size) != 0 ||
      pwrite(file.get(), input.data(), input.size(), 0) != size) {
    std::abort();
  }
}

void with_file(std::string_view input, const std::string& ending,
               const std::function<void(const std::filesystem::path&)>& fn) {
  // In memory, and the same name again and again: a million files cost nothing.
  static const std::string folder = [] {
    const bool in_memory = std::filesystem::is_directory("/dev/shm");
    std::string name = in_memory ? "/dev/shm/heed-fuzz-XXXXXX" : "/tmp/heed-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      std::abort();
    }
    return name;
  }();
  static const struct Remover {
    ~Remover() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  } remover;
  const std::filesystem::path path = folder + "/input" + ending;
  write_input(path, input);
  fn(path);
}

uint8_t Bytes::byte() {
  if (rest_.empty()) {
    return 0;
  }
  const auto value = static_cast<uint8_t>(rest_[0]);
  rest_.remove_prefix(1);
  return value;
}

int64_t Bytes::between(int64_t low, int64_t high) {
  const uint64_t number = static_cast<uint64_t>(byte()) << 8 | byte();
  return low + static_cast<int64_t>(number % static_cast<uint64_t>(high - low + 1));
}

float Bytes::value() {
  const uint8_t code = byte();
  if (code == 255) {
    return 1e4f;
  }
  if (code == 254) {
    return -1e4f;
  }
  return (static_cast<float>(code) - 127.0f) / 32.0f;
}

}  // namespace heed::fuzz
