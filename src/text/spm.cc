#include "text/spm.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/check.h"
#include "text/bpe.h"
#include "text/tokenizer_impl.h"
#include "text/trie.h"

namespace heed::text {
namespace {

using nlohmann::json;
using Type = SpmVocabulary::Type;

constexpr const char* kSpace = "\xE2\x96\x81";

json replace_step(const json& pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

json normalizer_of(const SpmVocabulary& v) {
  json steps = json::array();
  if (!v.charsmap.empty()) {
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(v.charsmap)}});
  }
  if (v.squeeze_spaces) {
    steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    steps.push_back(replace_step({{"Regex", " {2,}"}}, " "));
  }
  if (!v.unigram) {
    if (v.prefix_space) {
      steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
    }
    steps.push_back(replace_step({{"String", " "}}, kSpace));
  }
  return steps.empty() ? json() : json{{"type", "Sequence"}, {"normalizers", steps}};
}

json metaspace(const SpmVocabulary& v) {
  return {{"type", "Metaspace"},
          {"replacement", kSpace},
          {"prepend_scheme", v.prefix_space ? "always" : "never"},
          {"split", true}};
}

json decoder_of(const SpmVocabulary& v) {
  if (v.unigram && !v.byte_fallback) {
    return metaspace(v);
  }
  json steps = {
      replace_step({{"String", kSpace}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (v.prefix_space) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", steps}};
}

json added_of(const SpmVocabulary& v) {
  json added = json::array();
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    const Type type = v.pieces[i].type;
    if (type == Type::control || type == Type::unknown || type == Type::user_defined) {
      added.push_back({{"id", i},
                       {"content", v.pieces[i].text},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type != Type::user_defined}});
    }
  }
  return added;
}

json post_processor_of(const SpmVocabulary& v) {
  json special = json::object();
  json single = json::array();
  json pair = json::array();
  const auto add = [&](std::optional<int32_t> id, int type) {
    const std::string& token = v.pieces[static_cast<size_t>(*id)].text;
    special[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
    const json item = {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
    pair.push_back(item);
    if (type == 0) {
      single.push_back(item);
    }
  };
  const bool bert = v.cls && v.sep;
  for (int type = 0; type < 2; ++type) {
    if (bert && type == 0) {
      add(v.cls, type);
    } else if (!bert && v.add_bos && v.bos) {
      add(v.bos, type);
    }
    const json text = {{"Sequence", {{"id", type == 0 ? "A" : "B"}, {"type_id", type}}}};
    pair.push_back(text);
    if (type == 0) {
      single.push_back(text);
    }
    if (bert) {
      add(v.sep, type);
    } else if (v.add_eos && v.eos) {
      add(v.eos, type);
    }
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

std::vector<Merge> merges_of(const SpmVocabulary& v, const Vocabulary& vocabulary) {
  std::vector<float> scores;
  std::vector<bool> usable;
  for (const SpmVocabulary::Piece& piece : v.pieces) {
    scores.push_back(piece.score);
    usable.push_back(piece.type == Type::normal || piece.type == Type::user_defined ||
                     piece.type == Type::unused);
  }
  return merges_by_score(vocabulary, scores, usable);
}

Vocabulary vocabulary_of(const SpmVocabulary& v) {
  std::vector<std::string> tokens;
  for (const SpmVocabulary::Piece& piece : v.pieces) {
    tokens.push_back(piece.text);
  }
  return Vocabulary::from_list(std::move(tokens));
}

json model_of(const SpmVocabulary& v, bool with_vocabulary) {
  if (v.unigram) {
    json list = json::array();
    for (const SpmVocabulary::Piece& piece : v.pieces) {
      list.push_back({piece.text, piece.score});
    }
    return {{"type", "Unigram"},
            {"unk_id", v.unk ? json(*v.unk) : json()},
            {"vocab", std::move(list)},
            {"byte_fallback", v.byte_fallback}};
  }
  json tokens = json::object();
  json merges = json::array();
  if (with_vocabulary) {
    const Vocabulary vocabulary = vocabulary_of(v);
    for (const auto& [token, id] : vocabulary.ids()) {
      tokens[std::string(token)] = id;
    }
    for (const Merge& merge : merges_of(v, vocabulary)) {
      merges.push_back({vocabulary.token(merge.left), vocabulary.token(merge.right)});
    }
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", v.unk ? json(v.pieces[static_cast<size_t>(*v.unk)].text) : json()},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", v.byte_fallback},
          {"vocab", std::move(tokens)},
          {"merges", std::move(merges)}};
}

}  // namespace

json spm_document(const SpmVocabulary& v, bool with_model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_of(v)},
          {"normalizer", normalizer_of(v)},
          {"pre_tokenizer", v.unigram ? metaspace(v) : json()},
          {"post_processor", post_processor_of(v)},
          {"decoder", decoder_of(v)},
          {"model", model_of(v, with_model)}};
}

std::shared_ptr<TokenizerImpl> build_spm(const SpmVocabulary& v) {
  for (const SpmVocabulary::Piece& piece : v.pieces) {  // merges are looked for at every byte
    check_token_length(piece.text, Trie::kLongestKey, v.file);
  }
  BuildOptions options;
  options.special_in_text = v.special_in_text;
  if (!v.unigram) {
    // Built here rather than from the document, where two tokens of one score cannot be equals.
    Vocabulary vocabulary = vocabulary_of(v);
    const std::vector<Merge> merges = merges_of(v, vocabulary);
    BpeOptions bpe;
    bpe.byte_fallback = v.byte_fallback;
    bpe.fuse_unk = true;
    bpe.unk = v.unk;
    options.model = make_bpe(std::move(vocabulary), merges, std::move(bpe));
  }
  auto impl = build(adopt_json(spm_document(v, v.unigram), v.file), std::move(options));
  if (!v.unigram) {
    impl->document = [v] { return spm_document(v, true).dump(1); };
  }
  impl->special.unk = v.unk;
  impl->special.bos = v.bos;
  impl->special.eos = v.eos;
  impl->special.pad = v.pad;
  return impl;
}

}  // namespace heed::text
