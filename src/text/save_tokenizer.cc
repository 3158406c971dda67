#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "text/tokenizer_impl.h"

namespace heed {
namespace {

/// tokenizer_config.json, with the roles of special tokens and the class Python opens it with.
nlohmann::json config_of(const TokenizerImpl& impl) {
  nlohmann::json config = impl.config ? raw(*impl.config) : nlohmann::json::object();
  const auto role = [&](const char* name, std::optional<TokenId> id) {
    if (id && !config.contains(name)) {
      config[name] = impl.token(*id);
    }
  };
  role("bos_token", impl.special.bos);
  role("eos_token", impl.special.eos);
  role("pad_token", impl.special.pad);
  role("unk_token", impl.special.unk);
  role("mask_token", impl.special.mask);
  role("cls_token", impl.special.cls);
  role("sep_token", impl.special.sep);
  if (!config.contains("tokenizer_class")) {
    config["tokenizer_class"] = impl.files.empty() ? "PreTrainedTokenizerFast" : "MarianTokenizer";
  }
  return config;
}

}  // namespace

void Tokenizer::save(const std::filesystem::path& path) const {
  const TokenizerImpl& the = impl();
  const std::filesystem::path file = path.extension() == ".json" ? path : path / "tokenizer.json";
  if (file.has_parent_path()) {
    make_folder(file.parent_path());
  }
  for (const auto& [name, content] : the.files) {
    write_file_atomically(file.parent_path() / name, content);
  }
  if (the.files.empty()) {
    write_file_atomically(file, the.document() + "\n");
  }
  write_file_atomically(file.parent_path() / "tokenizer_config.json",
                        config_of(the).dump(2, ' ') + "\n");
}

}  // namespace heed
