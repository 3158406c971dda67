#include "text/legacy_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"
#include "io/json.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

constexpr uint64_t kLargestVocabulary = uint64_t{1} << 30;

/// Lines without their ends; CRLF counts as one end.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool has_upper_case(std::string_view token) {
  if (token.starts_with('[')) {  // [CLS], [unused1]
    return false;
  }
  return std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

nlohmann::json special_entry(int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// Those of the tokens that the vocabulary has, as "added_tokens".
nlohmann::json special_entries(const nlohmann::json& vocabulary,
                               const std::vector<std::string>& special) {
  nlohmann::json added = nlohmann::json::array();
  for (const std::string& token : special) {
    const auto it = vocabulary.find(token);
    if (it != vocabulary.end() && it->is_number_integer()) {
      added.push_back(special_entry(it->get<int64_t>(), token));
    }
  }
  return added;
}

}  // namespace

nlohmann::json byte_bpe_document(nlohmann::json vocabulary, nlohmann::json merges,
                                 const std::vector<std::string>& special) {
  nlohmann::json added = special_entries(vocabulary, special);
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", false},
                                     {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}}}};
}

nlohmann::json document_from_merges(const std::filesystem::path& vocabulary,
                                    const std::filesystem::path& merges) {
  nlohmann::json list = nlohmann::json::array();
  for (std::string& line : lines_of(read_file(merges, kLargestVocabulary))) {
    if (!line.empty() && !line.starts_with("#version")) {
      list.push_back(std::move(line));
    }
  }
  const Json tokens = Json::read(vocabulary);
  check_data(tokens.is_object(), vocabulary.native(), "is not an object of token: id");
  return byte_bpe_document(raw(tokens), std::move(list),
                           {"<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>"});
}

nlohmann::json wordpiece_document(nlohmann::json vocabulary, bool lowercase) {
  nlohmann::json added =
      special_entries(vocabulary, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  nlohmann::json post = nullptr;
  if (vocabulary.contains("[CLS]") && vocabulary.contains("[SEP]")) {
    const auto item = [](const char* kind, const char* id, int type) {
      return nlohmann::json{{kind, {{"id", id}, {"type_id", type}}}};
    };
    const auto special = [&](const char* token) {
      return nlohmann::json{{"id", token}, {"ids", {vocabulary[token]}}, {"tokens", {token}}};
    };
    post = {{"type", "TemplateProcessing"},
            {"single",
             {item("SpecialToken", "[CLS]", 0), item("Sequence", "A", 0),
              item("SpecialToken", "[SEP]", 0)}},
            {"pair",
             {item("SpecialToken", "[CLS]", 0), item("Sequence", "A", 0),
              item("SpecialToken", "[SEP]", 0), item("Sequence", "B", 1),
              item("SpecialToken", "[SEP]", 1)}},
            {"special_tokens", {{"[CLS]", special("[CLS]")}, {"[SEP]", special("[SEP]")}}}};
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", lowercase}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", std::move(post)},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", std::move(vocabulary)}}}};
}

nlohmann::json character_document(nlohmann::json vocabulary,
                                  const std::vector<std::string>& special) {
  nlohmann::json added = special_entries(vocabulary, special);
  const bool unk = vocabulary.contains("<unk>");
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Fuse"}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unk ? nlohmann::json("<unk>") : nlohmann::json()},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", std::move(vocabulary)},
            {"merges", nlohmann::json::array()}}}};
}

nlohmann::json document_from_vocab_txt(const std::filesystem::path& path,
                                       std::optional<bool> lowercase) {
  const std::vector<std::string> lines = lines_of(read_file(path, kLargestVocabulary));
  check_data(!lines.empty(), path.native(), "is empty; one token per line is expected");
  nlohmann::json vocabulary = nlohmann::json::object();
  bool upper = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    check_data(is_valid_utf8(lines[i]), path.native(), "line {} is not UTF-8", i + 1);
    vocabulary[lines[i]] = i;
    upper = upper || has_upper_case(lines[i]);
  }
  check_data(2 * vocabulary.size() >= lines.size(), path.native(),
             "has {} lines, but only {} different tokens", lines.size(), vocabulary.size());
  return wordpiece_document(std::move(vocabulary), lowercase.value_or(!upper));
}

}  // namespace heed::text
