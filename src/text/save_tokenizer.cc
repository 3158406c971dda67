#include "base/check.h"
#include "base/file.h"
#include "text/tokenizer_impl.h"

namespace heed {
namespace {

/// tokenizer_config.json, with the roles of special tokens and the class Python opens it with.
std::string config_of(const TokenizerImpl& impl) {
  JsonBuilder config = impl.config ? JsonBuilder(*impl.config) : JsonBuilder();
  const auto said = [&](const char* name) { return impl.config && impl.config->mentions(name); };
  const auto role = [&](const char* name, std::optional<TokenId> id) {
    if (id && !said(name)) {
      config.set(name, impl.token(*id));
    }
  };
  role("bos_token", impl.special.bos);
  role("eos_token", impl.special.eos);
  role("pad_token", impl.special.pad);
  role("unk_token", impl.special.unk);
  role("mask_token", impl.special.mask);
  role("cls_token", impl.special.cls);
  role("sep_token", impl.special.sep);
  if (!said("tokenizer_class")) {
    config.set("tokenizer_class",
               impl.files.empty() ? "PreTrainedTokenizerFast" : "MarianTokenizer");
  }
  return config.dump();
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
  write_file_atomically(file.parent_path() / "tokenizer_config.json", config_of(the) + "\n");
}

}  // namespace heed
