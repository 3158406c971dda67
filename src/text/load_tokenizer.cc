#include "text/load_tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "base/folder_entries.h"
#include "text/legacy_files.h"
#include "text/spm.h"
#include "text/tokenizer_impl.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

/// A JSON object in a file beside the tokenizer, if there is one.
std::optional<Json> side_file(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  return fs::exists(path) ? std::optional(Json::read(path)) : std::nullopt;
}

/// The merges that belong to a file whose name ends in vocab.json: merges.txt, or gpt2.merges.txt
/// for gpt2.vocab.json.
fs::path merges_beside(const fs::path& vocabulary) {
  const fs::path folder = vocabulary.parent_path();
  std::string name = vocabulary.filename().string();
  name.replace(name.rfind("vocab.json"), std::string::npos, "merges.txt");
  for (const fs::path& candidate : {folder / name, folder / "merges.txt"}) {
    if (fs::exists(candidate)) {
      return candidate;
    }
  }
  fail(ErrorKind::data, vocabulary.native(), "needs its merges beside it ({} or merges.txt)", name);
}

/// GPT-2's files are also those of RoBERTa and its kin, which put <s> and </s> around a text.
nlohmann::json document_of_merges(const fs::path& path, const Json* config) {
  nlohmann::json document = text::document_from_merges(path, merges_beside(path));
  const std::string kind = config != nullptr ? config->string_or("tokenizer_class", "") : "";
  const nlohmann::json& vocabulary = document["model"]["vocab"];
  for (const std::string_view family : {"Roberta", "Bart", "Longformer", "LED"}) {
    if (kind.starts_with(family) && vocabulary.contains("<s>") && vocabulary.contains("</s>")) {
      document["post_processor"] = {{"type", "RobertaProcessing"},
                                    {"sep", {"</s>", vocabulary["</s>"]}},
                                    {"cls", {"<s>", vocabulary["<s>"]}},
                                    {"trim_offsets", true},
                                    {"add_prefix_space", false}};
    }
  }
  return document;
}

/// `config`: the tokenizer_config.json of a model folder; null for a bare file.
std::shared_ptr<TokenizerImpl> load_file(const fs::path& path, const Json* config) {
  const std::string name = path.filename().string();
  if (name.ends_with("vocab.json")) {
    // The two files do not say which tokens are special: a bare vocabulary reads all text as text.
    return text::build(adopt_json(document_of_merges(path, config), path.native()),
                       {.special_in_text = config != nullptr, .model = nullptr});
  }
  if (name.ends_with(".json")) {
    return text::build(read_file(path, uint64_t{512} << 20), path.native());
  }
  if (name.ends_with(".txt")) {
    std::optional<bool> lowercase;
    if (config != nullptr && config->has("do_lower_case")) {
      lowercase = config->at("do_lower_case").boolean();
    }
    return text::build(adopt_json(text::document_from_vocab_txt(path, lowercase), path.native()));
  }
  if (name.ends_with(".model") || name.ends_with(".spm")) {
    return text::load_sentencepiece(path, config);
  }
  if (name.ends_with(".bin")) {
    return text::load_llama2c(path);
  }
  if (name.ends_with(".gguf")) {
    return text::load_gguf(path);
  }
  fail(ErrorKind::data, path.native(),
       "is no tokenizer file; tokenizer.json, vocab.json, vocab.txt, .model, .gguf and llama2.c's "
       ".bin are");
}

/// A folder's SentencePiece file: under a usual name, or the only .model there (KoBERT, whose
/// vocab.txt beside it lists the same pieces). Empty: none.
std::string model_file(const fs::path& folder) {
  for (const char* name :
       {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"}) {
    if (fs::exists(folder / name)) {
      return name;
    }
  }
  std::vector<std::string> found;
  for (const fs::path& entry : folder_entries(folder)) {
    if (entry.extension() == ".model" && fs::is_regular_file(entry)) {
      found.push_back(entry.filename().string());
    }
  }
  return found.size() == 1 ? found.front() : std::string();
}

/// The tokenizer's files that a folder has, in the order in which they are looked for.
std::vector<std::string> tokenizer_files(const fs::path& folder) {
  std::vector<std::string> files;
  for (const std::string& name : {std::string("tokenizer.json"), std::string("vocab.json"),
                                  model_file(folder), std::string("vocab.txt")}) {
    if (!name.empty() && fs::exists(folder / name)) {
      files.push_back(name);
    }
  }
  return files;
}

std::shared_ptr<TokenizerImpl> load_folder(const fs::path& folder) {
  const auto map = side_file(folder, "special_tokens_map.json");
  const Json config = side_file(folder, "tokenizer_config.json")
                          .value_or(Json::parse("{}", "tokenizer_config.json"));
  const bool marian = fs::exists(folder / "source.spm") && fs::exists(folder / "target.spm");
  const std::vector<std::string> files = tokenizer_files(folder);
  if (!files.empty()) {
    const std::string& name = files.front();
    const bool two_sides = marian && name == "vocab.json";
    auto impl = two_sides ? text::load_marian(folder) : load_file(folder / name, &config);
    if (map) {
      text::apply_config(*impl, *map);
    }
    text::apply_config(*impl, config);
    impl->config = config;
    return impl;
  }
  // A run folder; a RAG, which has another tokenizer for questions.
  for (const char* inner : {"model", "generator_tokenizer"}) {
    if (fs::is_directory(folder / inner)) {
      return load_folder(folder / inner);
    }
  }
  fail(ErrorKind::data, folder.native(),
       "has no tokenizer: tokenizer.json, vocab.json with merges.txt, vocab.txt or a .model is "
       "wanted");
}

}  // namespace

bool text::has_tokenizer(const fs::path& folder) { return !tokenizer_files(folder).empty(); }

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return Tokenizer(load_folder(path));
  }
  return Tokenizer(load_file(path, nullptr));
}

}  // namespace heed
