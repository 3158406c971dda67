#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/bpe.h"
#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

constexpr int64_t kLargestLength = int64_t{1} << 30;

AddedToken read_added(const Json& json, size_t tokens) {
  AddedToken token;
  token.id = read_id(json.at("id"), tokens);
  token.content = json.string("content");
  token.special = json.boolean_or("special", false);
  token.normalized = json.boolean_or("normalized", !token.special);
  token.single_word = json.boolean_or("single_word", false);
  token.left_strip = json.boolean_or("lstrip", false);
  token.right_strip = json.boolean_or("rstrip", false);
  return token;
}

std::optional<Truncation> read_truncation(const Json& all) {
  if (!all.has("truncation")) {
    return std::nullopt;
  }
  const Json json = all.at("truncation");
  Truncation result;
  result.max_length = json.integer("max_length", 0, kLargestLength);
  const std::string strategy = json.string_or("strategy", "LongestFirst");
  result.strategy = strategy == "OnlyFirst"    ? Truncation::Strategy::only_first
                    : strategy == "OnlySecond" ? Truncation::Strategy::only_second
                                               : Truncation::Strategy::longest_first;
  result.side = json.string_or("direction", "Right") == "Left" ? Side::left : Side::right;
  return result;
}

std::optional<Padding> read_padding(const Json& all) {
  if (!all.has("padding")) {
    return std::nullopt;
  }
  const Json json = all.at("padding");
  Padding result;
  if (json.at("strategy").is_object()) {
    result.length = json.at("strategy").integer("Fixed", 0, kLargestLength);
  }
  result.multiple_of = json.integer_or("pad_to_multiple_of", 1, 1, kLargestLength);
  result.side = json.string_or("direction", "Right") == "Left" ? Side::left : Side::right;
  result.id = json.integer_or("pad_id", 0, 0, kLargestLength);
  result.type_id = json.integer_or("pad_type_id", 0, 0, kLargestLength);
  result.token = json.string_or("pad_token", "[PAD]");
  return result;
}

struct Role {
  std::string_view config;  ///< its name in tokenizer_config.json
  std::optional<TokenId> SpecialTokens::*id;
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
  for (const auto& [token, id] : impl.model->vocabulary().ids()) {
    check_token_length(token, kLongestToken, impl.file);
  }
  for (size_t i = 0; i < impl.added.size(); ++i) {
    const AddedToken& token = impl.added[i];
    check_token_length(token.content, Trie::kLongestKey, impl.file);
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
      AlignedText key(token.content, 0, false, impl.file);
      impl.normalizer->apply(key);
      check_token_length(key.text(), Trie::kLongestKey, impl.file);
      impl.in_normalized.add(token, key.text());
    } else {
      impl.in_original.add(token, token.content);
    }
  }
  guess_roles(impl);
}

void apply_config(TokenizerImpl& impl, const Json& config) {
  for (const Role& role : kRoles) {
    const auto entry = config.find(role.config);
    if (!entry) {
      continue;
    }
    const auto id = impl.id_of(entry->is_object() ? entry->string("content") : entry->string());
    if (id) {
      impl.special.*role.id = id;
    }
  }
}

std::shared_ptr<TokenizerImpl> build(const Json& json, BuildOptions options) {
  auto impl = std::make_shared<TokenizerImpl>();
  impl->file = json.file();
  impl->document = [json] { return json.dump(1); };
  const Json model = json.at("model");
  const std::string type = model.string_or("type", model.has("merges") ? "BPE" : "");
  // With affixes on its symbols the model reads bytes in their written form, not as they are.
  const bool bytes = type == "BPE" && model.string_or("continuing_subword_prefix", "").empty() &&
                     model.string_or("end_of_word_suffix", "").empty();
  if (json.has("normalizer")) {
    impl->normalizer = make_normalizer(json.at("normalizer"));
  }
  if (json.has("pre_tokenizer")) {
    impl->pretokenizer = make_pretokenizer(json.at("pre_tokenizer"), bytes ? &impl->plan : nullptr);
  }
  if (options.split != nullptr) {
    impl->model = make_bpe(*options.split, impl->plan.raw_bytes);
    if (impl->model == nullptr) {
      return nullptr;
    }
  } else {
    impl->model = options.model != nullptr ? std::move(options.model)
                                           : make_model(model, impl->plan.raw_bytes);
  }
  if (json.has("post_processor")) {
    impl->post = make_postprocessor(json.at("post_processor"));
  }
  if (json.has("decoder")) {
    impl->decoder = make_decoder(json.at("decoder"));
  }
  impl->truncation = read_truncation(json);
  impl->padding = read_padding(json);
  std::vector<AddedToken> added;
  if (json.has("added_tokens")) {
    const size_t count = json.at("added_tokens").size();
    const auto tokens = static_cast<size_t>(impl->model->vocabulary().size()) + count;
    for (size_t i = 0; i < count; ++i) {
      added.push_back(read_added(json.at("added_tokens")[i], tokens));
      added.back().in_text = options.special_in_text || !added.back().special;
    }
  }
  add_tokens(*impl, std::move(added));
  if (model.has("unk_token")) {
    impl->special.unk = impl->id_of(model.string("unk_token"));
  }
  for (const auto* items : {&impl->post.single, &impl->post.pair}) {
    for (const auto& item : *items) {
      for (const TokenId id : item.ids) {
        check_data(id < impl->vocab_size, impl->file,
                   "post_processor adds id {}; the vocabulary has {}", id, impl->vocab_size);
      }
    }
  }
  return impl;
}

std::shared_ptr<TokenizerImpl> build(std::string text, const std::string& file) {
  std::optional<SplitJson> split = split_tokenizer_json(text, file);
  if (split && split->rest.at("model").string_or("type", "BPE") == "BPE") {
    if (auto impl = build(split->rest, {.model = nullptr, .split = &*split})) {
      impl->document = [text = std::move(text), file] { return Json::parse(text, file).dump(1); };
      return impl;
    }
  }
  return build(Json::parse(text, file));
}

}  // namespace heed::text
