#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "io/gguf.h"
#include "io/json.h"
#include "text/chat_template.h"

namespace heed::text {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxBytes = uint64_t{1} << 20;

/// A token as tokenizer_config.json writes it: its text, or an object with its text as `content`.
std::optional<std::string> token_text(const Json& token) {
  if (token.is_string()) {
    return token.string();
  }
  return token.is_object() && token.has("content") ? std::optional(token.string("content"))
                                                   : std::nullopt;
}

void read_special_tokens(const Json& config, ChatTemplateSource& source) {
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    const auto token = config.find(name);
    const auto known = std::find_if(source.special_tokens.begin(), source.special_tokens.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (!token || known != source.special_tokens.end()) {
      continue;
    }
    if (auto text = token_text(*token)) {
      source.special_tokens.emplace_back(name, std::move(*text));
    }
  }
}

/// One template, or a list of objects with `name` and `template`.
void read_templates(const Json& field, ChatTemplateSource& source) {
  if (field.is_string()) {
    source.templates.emplace_back("default", field.string());
    return;
  }
  for (const Json& each : field.elements()) {
    source.templates.emplace_back(each.string("name"), each.string("template"));
  }
}

void read_folder(const fs::path& folder, ChatTemplateSource& source) {
  const auto side_file = [&](const char* name) {
    const fs::path path = folder / name;
    return fs::exists(path) ? std::optional(Json::read(path)) : std::nullopt;
  };
  const auto config = side_file("tokenizer_config.json");
  for (const auto& file : {config, side_file("special_tokens_map.json")}) {
    if (file) {
      read_special_tokens(*file, source);
    }
  }
  if (fs::exists(folder / "chat_template.jinja")) {
    source.file = (folder / "chat_template.jinja").native();
    source.templates.emplace_back("default", read_file(source.file, kMaxBytes));
    return;
  }
  const auto own = side_file("chat_template.json");
  for (const auto& file : {own, config}) {
    const auto field = file ? file->find("chat_template") : std::nullopt;
    if (field && source.templates.empty()) {
      source.file = file->file();
      read_templates(*field, source);
    }
  }
}

void read_gguf(const fs::path& path, ChatTemplateSource& source) {
  const GgufFile gguf(path);
  constexpr std::string_view kKey = "tokenizer.chat_template";
  const auto add = [&](std::string name, const std::string& key) {
    if (gguf.has(key)) {
      source.templates.emplace_back(std::move(name), gguf.string(key));
    }
  };
  add("default", std::string(kKey));
  if (gguf.has("tokenizer.chat_templates")) {
    for (const std::string& name : gguf.strings("tokenizer.chat_templates")) {
      add(name, fmt::format("{}.{}", kKey, name));
    }
  }
  if (source.templates.empty() || !gguf.has("tokenizer.ggml.tokens")) {
    return;
  }
  const std::vector<std::string> tokens = gguf.strings("tokenizer.ggml.tokens");
  const std::pair<const char*, const char*> roles[] = {
      {"bos_token", "bos"},       {"eos_token", "eos"},     {"unk_token", "unknown"},
      {"sep_token", "seperator"}, {"pad_token", "padding"}, {"cls_token", "cls"},
      {"mask_token", "mask"},
  };
  for (const auto& [name, role] : roles) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", role);
    if (gguf.has(key)) {
      const int64_t id = gguf.integer(key, 0, static_cast<int64_t>(tokens.size()) - 1);
      source.special_tokens.emplace_back(name, tokens[static_cast<size_t>(id)]);
    }
  }
}

}  // namespace

ChatTemplateSource read_chat_template(const fs::path& path) {
  ChatTemplateSource source;
  source.file = path.native();
  if (fs::is_directory(path)) {
    read_folder(path, source);
  } else if (path.extension() == ".gguf") {
    read_gguf(path, source);
  } else if (path.extension() == ".json") {
    const Json file = Json::read(path);
    read_special_tokens(file, source);
    if (const auto field = file.find("chat_template")) {
      read_templates(*field, source);
    }
  } else if (path.extension() != ".bin") {  // llama2.c's models have none
    source.templates.emplace_back("default", read_file(path, kMaxBytes));
  }
  return source;
}

}  // namespace heed::text
