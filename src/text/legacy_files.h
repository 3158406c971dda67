#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/fields.h"

namespace heed::text {

/// GPT-2's pair of files as a tokenizer.json document.
Json document_from_merges(const std::filesystem::path& vocabulary,
                          const std::filesystem::path& merges);
/// BERT's vocab.txt, one token a line. `lowercase` unset: as the vocabulary itself is.
Json document_from_vocab_txt(const std::filesystem::path& path, std::optional<bool> lowercase);

/// A byte-level BPE tokenizer as GPT-2's: {"token": id} and ["left right", …].
Json byte_bpe_document(Json vocabulary, Json merges, const std::vector<std::string>& special);
/// A BERT tokenizer: [CLS] … [SEP] around, ## continues a word.
Json wordpiece_document(Json vocabulary, bool lowercase);

}  // namespace heed::text
