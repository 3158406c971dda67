#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace heed::text {

/// GPT-2's pair of files as a tokenizer.json document.
nlohmann::json document_from_merges(const std::filesystem::path& vocabulary,
                                    const std::filesystem::path& merges);
/// BERT's vocab.txt, one token per line. `lowercase` unset: as the vocabulary itself is.
nlohmann::json document_from_vocab_txt(const std::filesystem::path& path,
                                       std::optional<bool> lowercase);

/// A byte-level BPE tokenizer as GPT-2's: {"token": id} and ["left right", …].
nlohmann::json byte_bpe_document(nlohmann::json vocabulary, nlohmann::json merges,
                                 const std::vector<std::string>& special);
/// A BERT tokenizer: [CLS] … [SEP] around, ## continues a word.
nlohmann::json wordpiece_document(nlohmann::json vocabulary, bool lowercase);
/// A token a character: BPE without merges, "<unk>" for the rest where the vocabulary has it.
nlohmann::json character_document(nlohmann::json vocabulary,
                                  const std::vector<std::string>& special);

}  // namespace heed::text
