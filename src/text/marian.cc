#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "text/spm.h"
#include "text/tokenizer_impl.h"

namespace heed::text {
namespace {

using nlohmann::json;

constexpr uint64_t kLargestMarian = uint64_t{256} << 20;

/// One side of a translation model: SentencePiece's ids against those of vocab.json.
struct LanguageSide {
  std::unique_ptr<ForeignTokenizer> pieces;
  std::vector<int32_t> to_vocabulary;    ///< by SentencePiece's id
  std::vector<int32_t> from_vocabulary;  ///< by vocab.json's id

  LanguageSide(const std::filesystem::path& path, const Vocabulary& vocabulary, int32_t unk) {
    const std::string bytes = read_file(path, kLargestMarian);
    const SpmVocabulary spm = read_sentencepiece(bytes, path.native());
    pieces = make_sentencepiece(bytes, path.native());
    from_vocabulary.assign(static_cast<size_t>(vocabulary.size()), spm.unk.value_or(0));
    for (size_t i = 0; i < spm.pieces.size(); ++i) {
      const auto id = vocabulary.find(spm.pieces[i].text);
      to_vocabulary.push_back(id.value_or(unk));
      if (id) {
        from_vocabulary[static_cast<size_t>(*id)] = static_cast<int32_t>(i);
      }
    }
  }
};

/// Texts are read as the source side; ids are written out as the target side.
class Marian final : public ForeignTokenizer {
 public:
  Marian(LanguageSide source, LanguageSide target)
      : source_(std::move(source)), target_(std::move(target)) {}

  void tokenize(std::string_view text, int64_t base, const TokenList& out) const override {
    const size_t first = out.ids.size();
    source_.pieces->tokenize(text, base, out);
    for (size_t i = first; i < out.ids.size(); ++i) {
      out.ids[i] = source_.to_vocabulary[static_cast<size_t>(out.ids[i])];
    }
  }

  std::string decode(std::span<const TokenId> ids) const override {
    std::vector<TokenId> pieces;
    for (const TokenId id : ids) {
      pieces.push_back(target_.from_vocabulary[static_cast<size_t>(id)]);
    }
    return target_.pieces->decode(pieces);
  }

 private:
  LanguageSide source_, target_;
};

json added_token(const std::string& content, int64_t id, bool special) {
  return {{"id", id}, {"content", content}, {"special", special}, {"normalized", false}};
}

/// Special tokens, and marks such as >>fra<< that choose the target language.
json added_tokens(const Json& vocabulary) {
  json added = json::array();
  vocabulary.for_each([&](const std::string& token, const Json& id) {
    const bool special = token == "</s>" || token == "<unk>" || token == "<pad>";
    if (special || (token.starts_with(">>") && token.ends_with("<<"))) {
      added.push_back(added_token(token, id.integer(), special));
    }
  });
  return added;
}

}  // namespace

std::shared_ptr<TokenizerImpl> load_marian(const std::filesystem::path& folder) {
  const Json vocabulary = Json::read(folder / "vocab.json");
  for (const char* token : {"</s>", "<unk>"}) {
    check_data(vocabulary.has(token), vocabulary.file(), "has no token {}", token);
  }
  const int64_t eos = vocabulary.at("</s>").integer();
  json document = {
      {"added_tokens", added_tokens(vocabulary)},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}},
        {"pair",
         {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "B"}, {"type_id", 0}}}},
          {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}},
        {"special_tokens", {{"</s>", {{"id", "</s>"}, {"ids", {eos}}, {"tokens", {"</s>"}}}}}}}},
      {"model", {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", raw(vocabulary)}}}};
  auto impl = build(adopt_json(std::move(document), vocabulary.file()),
                    {.special_in_text = true, .model = nullptr});
  const Vocabulary& words = impl->model->vocabulary();
  const int32_t unk = *words.find("<unk>");
  impl->foreign = std::make_unique<Marian>(LanguageSide(folder / "source.spm", words, unk),
                                           LanguageSide(folder / "target.spm", words, unk));
  for (const char* name : {"source.spm", "target.spm", "vocab.json"}) {
    impl->files.push_back({name, read_file(folder / name, kLargestMarian)});
  }
  return impl;
}

}  // namespace heed::text
