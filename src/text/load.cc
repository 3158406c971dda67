#include <array>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "text/legacy_files.h"
#include "text/tokenizer_impl.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using text::Json;

constexpr uint64_t kLargestFile = uint64_t{1} << 30;

/// A JSON file beside the tokenizer, or null.
Json side_file(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  return fs::exists(path) ? text::parse_json(read_file(path, kLargestFile), path.native()) : Json();
}

/// The merges that belong to a vocab.json: merges.txt, or gpt2.merges.txt for gpt2.vocab.json.
fs::path merges_beside(const fs::path& vocabulary) {
  const fs::path folder = vocabulary.parent_path();
  std::string name = vocabulary.filename().string();
  const size_t at = name.rfind("vocab.json");
  if (at != std::string::npos) {
    name.replace(at, std::string::npos, "merges.txt");
  }
  for (const fs::path& candidate : {folder / name, folder / "merges.txt"}) {
    if (at != std::string::npos && fs::exists(candidate)) {
      return candidate;
    }
  }
  fail(ErrorKind::data, vocabulary.native(), "needs its merges beside it ({} or merges.txt)",
       at != std::string::npos ? name : "*.merges.txt");
}

std::optional<bool> flag_of(const Json& config, const char* name) {
  const bool there = config.is_object() && config.contains(name) && config[name].is_boolean();
  return there ? std::optional(config[name].get<bool>()) : std::nullopt;
}

std::shared_ptr<TokenizerImpl> load_file(const fs::path& path, const Json& config) {
  const std::string name = path.filename().string();
  if (name.ends_with("vocab.json")) {
    // The two files do not say which tokens are special: a bare vocabulary reads all text as text.
    return text::build(text::document_from_merges(path, merges_beside(path)), path.native(),
                       config.is_object());
  }
  if (name.ends_with(".json")) {
    return text::build(text::parse_json(read_file(path, kLargestFile), path.native()),
                       path.native());
  }
  if (name.ends_with(".txt")) {
    return text::build(text::document_from_vocab_txt(path, flag_of(config, "do_lower_case")),
                       path.native());
  }
  fail(ErrorKind::data, path.native(),
       "is no tokenizer file; tokenizer.json, vocab.json, vocab.txt, .model, .gguf and llama2.c's "
       ".bin are");
}

std::shared_ptr<TokenizerImpl> load_folder(const fs::path& folder) {
  Json config = side_file(folder, "tokenizer_config.json");
  if (!config.is_object()) {
    config = Json::object();
  }
  const Json map = side_file(folder, "special_tokens_map.json");
  for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt"}) {
    if (!fs::exists(folder / name)) {
      continue;
    }
    auto impl = load_file(folder / name, config);
    text::apply_config(*impl, map);
    text::apply_config(*impl, config);
    impl->config = config;
    return impl;
  }
  fail(ErrorKind::data, folder.native(),
       "has no tokenizer: tokenizer.json, vocab.json with merges.txt, vocab.txt or a .model is "
       "wanted");
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return Tokenizer(load_folder(path));
  }
  return Tokenizer(load_file(path, Json()));
}

}  // namespace heed
