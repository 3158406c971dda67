#include <algorithm>
#include <array>

#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

AddedToken read_added(const Fields& fields, size_t tokens) {
  AddedToken token;
  check_id(fields.need("id"), tokens, fields.file(), fields.path("id"));
  token.id = static_cast<int32_t>(fields.integer("id"));
  token.content = fields.text("content");
  token.special = fields.flag("special", false);
  token.normalized = fields.flag("normalized", !token.special);
  token.single_word = fields.flag("single_word", false);
  token.left_strip = fields.flag("lstrip", false);
  token.right_strip = fields.flag("rstrip", false);
  return token;
}

std::optional<Truncation> read_truncation(const Fields& all) {
  if (all.find("truncation") == nullptr) {
    return std::nullopt;
  }
  const Fields fields = all.object("truncation");
  Truncation result;
  result.max_length = fields.integer("max_length");
  const std::string strategy = fields.text("strategy", "LongestFirst");
  result.strategy = strategy == "OnlyFirst"    ? Truncation::Strategy::only_first
                    : strategy == "OnlySecond" ? Truncation::Strategy::only_second
                                               : Truncation::Strategy::longest_first;
  result.side = fields.text("direction", "Right") == "Left" ? Side::left : Side::right;
  return result;
}

std::optional<Padding> read_padding(const Fields& all) {
  if (all.find("padding") == nullptr) {
    return std::nullopt;
  }
  const Fields fields = all.object("padding");
  Padding result;
  if (fields.need("strategy").is_object()) {
    result.length = fields.object("strategy").integer("Fixed");
  }
  result.multiple_of = std::max<int64_t>(1, fields.integer("pad_to_multiple_of", 1));
  result.side = fields.text("direction", "Right") == "Left" ? Side::left : Side::right;
  result.id = static_cast<int32_t>(fields.integer("pad_id", 0));
  result.type_id = static_cast<int32_t>(fields.integer("pad_type_id", 0));
  result.token = fields.text("pad_token", "[PAD]");
  return result;
}

struct Role {
  std::string_view config;  ///< its name in tokenizer_config.json
  std::optional<int32_t> SpecialTokens::*id;
  std::array<std::string_view, 5> usual;  ///< what such a token is usually called
};

constexpr std::array<Role, 7> kRoles{{
    {"bos_token",
     &SpecialTokens::bos,
     {"<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|endoftext|>"}},
    {"eos_token",
     &SpecialTokens::eos,
     {"</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"}},
    {"pad_token", &SpecialTokens::pad, {"<pad>", "[PAD]", "<|pad|>", "", ""}},
    {"unk_token", &SpecialTokens::unk, {"<unk>", "[UNK]", "", "", ""}},
    {"mask_token", &SpecialTokens::mask, {"<mask>", "[MASK]", "", "", ""}},
    {"cls_token", &SpecialTokens::cls, {"[CLS]", "", "", "", ""}},
    {"sep_token", &SpecialTokens::sep, {"[SEP]", "", "", "", ""}},
}};

void guess_roles(TokenizerImpl& impl) {
  for (const Role& role : kRoles) {
    for (const std::string_view name : role.usual) {
      if (!(impl.special.*role.id) && !name.empty()) {
        impl.special.*role.id = impl.id_of(name);
      }
    }
  }
}

}  // namespace

void add_tokens(TokenizerImpl& impl, std::vector<AddedToken> tokens) {
  impl.added = std::move(tokens);
  impl.vocab_size = impl.model->vocabulary().size();
  for (size_t i = 0; i < impl.added.size(); ++i) {
    const AddedToken& token = impl.added[i];
    const auto [at, fresh] = impl.added_by_id.emplace(token.id, i);
    check_data(fresh, impl.file, "added tokens '{}' and '{}' have the same id {}",
               impl.added[at->second].content, token.content, token.id);
    const bool inside = token.id < impl.model->vocabulary().size();
    const std::string& there = inside ? impl.model->vocabulary().token(token.id) : token.content;
    check_data(there.empty() || there == token.content, impl.file,
               "added token '{}' has id {}, which is '{}' in the vocabulary", token.content,
               token.id, there);
    impl.added_by_content.insert_or_assign(token.content, token.id);
    impl.vocab_size = std::max<int64_t>(impl.vocab_size, int64_t{token.id} + 1);
    if (!token.in_text) {
      continue;
    }
    if (token.normalized && impl.normalizer != nullptr) {
      AlignedText key(token.content, 0, false);
      impl.normalizer->apply(key);
      impl.in_normalized.add(token, key.text());
    } else {
      impl.in_original.add(token, token.content);
    }
  }
  guess_roles(impl);
}

void apply_config(TokenizerImpl& impl, const Json& config) {
  if (!config.is_object()) {
    return;
  }
  for (const Role& role : kRoles) {
    const auto it = config.find(std::string(role.config));
    if (it == config.end()) {
      continue;
    }
    const Json* name = it->is_object() && it->contains("content") ? &(*it)["content"] : &*it;
    if (name->is_string()) {
      const auto id = impl.id_of(name->get<std::string>());
      if (id) {
        impl.special.*role.id = id;
      }
    }
  }
}

std::shared_ptr<TokenizerImpl> build(Json document, std::string_view file, bool special_in_text) {
  auto impl = std::make_shared<TokenizerImpl>();
  impl->file = file;
  const Fields fields(document, file, "");
  const Fields model = fields.object("model");
  const std::string type = model.text("type", model.find("merges") != nullptr ? "BPE" : "");
  if (fields.find("normalizer") != nullptr) {
    impl->normalizer = make_normalizer(fields.object("normalizer"));
  }
  if (fields.find("pre_tokenizer") != nullptr) {
    impl->pretokenizer =
        make_pretokenizer(fields.object("pre_tokenizer"), type == "BPE" ? &impl->plan : nullptr);
  }
  impl->model = make_model(model, impl->plan.raw_bytes);
  if (fields.find("post_processor") != nullptr) {
    impl->post = make_postprocessor(fields.object("post_processor"));
  }
  if (fields.find("decoder") != nullptr) {
    impl->decoder = make_decoder(fields.object("decoder"));
  }
  impl->truncation = read_truncation(fields);
  impl->padding = read_padding(fields);
  std::vector<AddedToken> added;
  if (fields.find("added_tokens") != nullptr) {
    const size_t count = fields.array("added_tokens").size();
    const auto tokens = static_cast<size_t>(impl->model->vocabulary().size()) + count;
    for (size_t i = 0; i < count; ++i) {
      added.push_back(read_added(fields.element("added_tokens", i), tokens));
      added.back().in_text = special_in_text || !added.back().special;
    }
  }
  add_tokens(*impl, std::move(added));
  if (model.find("unk_token") != nullptr) {
    impl->special.unk = impl->id_of(model.text("unk_token"));
  }
  for (const auto* items : {&impl->post.single, &impl->post.pair}) {
    for (const auto& item : *items) {
      for (const int32_t id : item.ids) {
        check_data(id < impl->vocab_size, file, "post_processor adds id {}; the vocabulary has {}",
                   id, impl->vocab_size);
      }
    }
  }
  impl->document = std::move(document);
  return impl;
}

}  // namespace heed::text
