#include "io/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/file.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

/// The folder in which Hugging Face's libraries keep downloaded models, by the same variables.
fs::path hub_cache() {
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value == nullptr ? fs::path() : fs::path(value);
  };
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (fs::path found = variable(name); !found.empty()) {
      return found;
    }
  }
  if (const fs::path home = variable("HF_HOME"); !home.empty()) {
    return home / "hub";
  }
  const fs::path cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") / ".cache" : cache) / "huggingface" / "hub";
}

struct HubName {
  std::string repository;  ///< "openai-community/gpt2"
  std::string revision;    ///< "main"
};

/// Letters, digits, '_', '.' and '-', beginning with none of the last two.
bool is_hub_word(std::string_view text) {
  const auto ordinary = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && ordinary(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return ordinary(c) || c == '.' || c == '-';
  });
}

/// A name as on the hub; nothing where it cannot be one.
std::optional<HubName> hub_name(const std::string& text) {
  constexpr size_t kLongest = 200;
  const size_t at = text.find('@');
  const std::string repository = text.substr(0, at);
  const size_t slash = repository.find('/');
  const bool fits = text.size() <= kLongest && is_hub_word(repository.substr(0, slash)) &&
                    (slash == std::string::npos || is_hub_word(repository.substr(slash + 1))) &&
                    (at == std::string::npos || is_hub_word(text.substr(at + 1)));
  if (!fits) {
    return std::nullopt;
  }
  return HubName{repository, at == std::string::npos ? "main" : text.substr(at + 1)};
}

/// The snapshot of a repository in the cache; an empty path where it is not there.
fs::path cached_snapshot(const fs::path& cache, const HubName& name) {
  std::string folder = "models--" + name.repository;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  const fs::path repository = cache / folder;
  std::string commit = name.revision;
  if (const fs::path reference = repository / "refs" / name.revision;
      fs::is_regular_file(reference)) {
    constexpr uint64_t kMost = 256;
    commit = read_file(reference, kMost);
    commit.erase(commit.find_last_not_of(" \r\n\t") + 1);
  }
  const bool plain = !commit.empty() && commit.find_first_not_of(
                                            "0123456789abcdefghijklmnopqrstuvwxyz"
                                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == std::string::npos;
  const fs::path snapshot = repository / "snapshots" / commit;
  return plain && commit.find("..") == std::string::npos && fs::exists(snapshot / "config.json")
             ? snapshot
             : fs::path();
}

}  // namespace

fs::path find_in_hub_cache(const fs::path& name) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) {
    return name;
  }
  const std::optional<HubName> hub = hub_name(name.string());
  if (!hub) {
    fail(ErrorKind::data, name.native(), "there is no such file or folder");
  }
  const fs::path cache = hub_cache();
  fs::path snapshot = cached_snapshot(cache, *hub);
  if (snapshot.empty()) {
    fail(ErrorKind::data, name.native(),
         "there is no such file or folder, and no model of that name in the local Hugging Face "
         "cache ({}); download it with: hf download {}{}",
         cache.native(), hub->repository,
         hub->revision == "main" ? std::string() : " --revision " + hub->revision);
  }
  return snapshot;
}

}  // namespace heed
