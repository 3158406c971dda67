#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "base/folder_entries.h"
#include "heed/text.h"
#include "text/bpe_trainer.h"
#include "text/byte_level.h"
#include "text/gpt2_split.h"
#include "text/legacy_files.h"
#include "text/tokenizer_impl.h"
#include "text/train_unigram.h"
#include "text/unicode.h"
#include "text/word_count.h"

namespace heed {
namespace {

using nlohmann::json;
using text::ChunkWords;
using text::WordCount;

constexpr const char* kName = "trained tokenizer";

std::vector<std::string> special_of(const TokenizerTraining& options,
                                    const std::vector<std::string>& usual) {
  return options.special_tokens.empty() ? usual : options.special_tokens;
}

/// Words in GPT-2's writing of bytes, so that the trainer's characters are bytes.
std::vector<WordCount> written_words(std::span<const std::string_view> texts) {
  std::vector<WordCount> words =
      text::count_words(texts, [](std::string_view chunk, ChunkWords& words_of_chunk) {
        text::Gpt2Splitter splitter(chunk);
        for (std::string_view word; splitter.next(word);) {
          words_of_chunk.counter.add(word);
        }
      });
  for (WordCount& word : words) {
    std::string written;
    for (const char c : word.word) {
      written += text::byte_to_text(static_cast<unsigned char>(c));
    }
    word.word = std::move(written);
  }
  return words;
}

void check_size(int64_t wanted, size_t least) {
  if (wanted < static_cast<int64_t>(least)) {
    fail(ErrorKind::usage, "train tokenizer",
         "a vocabulary of {} has no room for the {} tokens it begins with", wanted, least);
  }
}

json vocabulary_of(const std::vector<std::string>& tokens) {
  json vocabulary = json::object();
  for (size_t i = 0; i < tokens.size(); ++i) {
    vocabulary[tokens[i]] = i;
  }
  return vocabulary;
}

Tokenizer finish(json document) {
  return Tokenizer(text::build(adopt_json(std::move(document), kName)));
}

Tokenizer train_byte_bpe(std::span<const std::string_view> texts,
                         const TokenizerTraining& options) {
  text::BpeTraining training;
  const std::vector<std::string> special = special_of(options, {"<|endoftext|>"});
  training.vocab_size = options.vocab_size;
  training.min_frequency = options.min_frequency;
  training.tokens = special;
  training.alphabet_begin = special.size();
  std::map<char32_t, std::string> alphabet;  // in the order of code points
  for (int byte = 0; byte < 256; ++byte) {
    const std::string& written = text::byte_to_text(static_cast<unsigned char>(byte));
    alphabet[text::decode_one(written.data(), written.data() + written.size()).code] = written;
  }
  for (const auto& [code, written] : alphabet) {
    training.tokens.push_back(written);
  }
  check_size(options.vocab_size, training.tokens.size());
  const text::BpeTrained trained = text::train_bpe(written_words(texts), training);
  json merges = json::array();
  for (const auto& [left, right] : trained.merges) {
    merges.push_back(trained.tokens[static_cast<size_t>(left)] + " " +
                     trained.tokens[static_cast<size_t>(right)]);
  }
  return finish(text::byte_bpe_document(vocabulary_of(trained.tokens), std::move(merges), special));
}

/// How often each character is there, in the order of code points.
std::map<char32_t, int64_t> count_characters(const std::vector<WordCount>& words) {
  std::map<char32_t, int64_t> counts;
  for (const WordCount& word : words) {
    for (size_t i = 0; i < word.word.size();) {
      const auto one = text::decode_one(word.word.data() + i, word.word.data() + word.word.size());
      counts[one.code] += word.count;
      i += one.length;
    }
  }
  return counts;
}

/// The most frequent characters, in the order of code points.
std::vector<std::string> alphabet_of(const std::map<char32_t, int64_t>& counts, size_t most) {
  std::vector<std::pair<int64_t, char32_t>> order;
  order.reserve(counts.size());
  for (const auto& [code, count] : counts) {
    order.emplace_back(-count, code);
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), most));
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<std::string> alphabet;
  for (const auto& [count, code] : order) {
    alphabet.emplace_back();
    text::append_code(alphabet.back(), code);
  }
  return alphabet;
}

Tokenizer train_wordpiece(std::span<const std::string_view> texts,
                          const TokenizerTraining& options) {
  text::BpeTraining training;
  training.tokens = special_of(options, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  training.alphabet_begin = training.tokens.size();
  training.vocab_size = options.vocab_size;
  training.min_frequency = options.min_frequency;
  training.prefix = "##";
  check_size(options.vocab_size, training.tokens.size() + 1);
  const Json shape = adopt_json(text::wordpiece_document(json::object(), options.lowercase), kName);
  const auto normalizer = text::make_normalizer(shape.at("normalizer"));
  const auto pretokenizer = text::make_pretokenizer(shape.at("pre_tokenizer"), nullptr);
  const std::vector<WordCount> words =
      text::count_words(texts, [&](std::string_view chunk, ChunkWords& out) {
        const std::string clean = text::replace_invalid(chunk);
        text::AlignedText aligned(clean, 0, false);
        normalizer->apply(aligned);
        std::vector<text::Piece> pieces{{0, aligned.text().size()}};
        pretokenizer->apply(aligned, pieces);
        out.text = aligned.text();
        for (const text::Piece& piece : pieces) {
          out.counter.add(std::string_view(out.text).substr(piece.begin, piece.end - piece.begin));
        }
      });
  const size_t room = static_cast<size_t>(options.vocab_size) - training.tokens.size();
  for (std::string& character :
       alphabet_of(count_characters(words), std::max<size_t>(1, room / 2))) {
    training.tokens.push_back(std::move(character));
  }
  const text::BpeTrained trained = text::train_bpe(words, training);
  return finish(text::wordpiece_document(vocabulary_of(trained.tokens), options.lowercase));
}

Tokenizer train_character(std::span<const std::string_view> texts,
                          const TokenizerTraining& options) {
  std::vector<std::string> tokens = special_of(options, {"<pad>", "<unk>", "<s>", "</s>"});
  const std::vector<std::string> special = tokens;
  const std::vector<WordCount> characters =
      text::count_words(texts, [](std::string_view chunk, ChunkWords& out) {
        for (size_t i = 0; i < chunk.size();) {
          const auto one = text::decode_one(chunk.data() + i, chunk.data() + chunk.size());
          if (one.valid) {
            out.counter.add(chunk.substr(i, one.length));
          }
          i += one.length;
        }
      });
  for (const WordCount& character : characters) {
    if (std::find(special.begin(), special.end(), character.word) == special.end()) {
      tokens.push_back(character.word);
    }
  }
  return finish(text::character_document(vocabulary_of(tokens), special));
}

/// All regular files under the given paths, folders in order of names.
std::vector<std::filesystem::path> files_under(std::span<const std::filesystem::path> paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const std::vector<fs::path> below = files_below(path);
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

}  // namespace

TokenizerTraining parse_tokenizer_kind(std::string_view text) {
  TokenizerTraining result;
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::map<std::string_view, TokenizerKind> kinds{{"char", TokenizerKind::character},
                                                        {"bpe", TokenizerKind::byte_bpe},
                                                        {"wordpiece", TokenizerKind::wordpiece},
                                                        {"unigram", TokenizerKind::unigram}};
  const auto it = kinds.find(kind);
  const bool sized = colon != std::string_view::npos;
  bool good = it != kinds.end() && (sized || it->second == TokenizerKind::character);
  if (sized) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), result.vocab_size);
    good = good && error == std::errc() && end == number.data() + number.size() &&
           result.vocab_size > 0 && result.vocab_size <= 1 << 24;
  }
  if (!good) {
    fail(ErrorKind::usage, "tokenizer", "'{}' is none of char, bpe:N, wordpiece:N, unigram:N",
         text);
  }
  result.kind = it->second;
  return result;
}

Tokenizer train_tokenizer(std::span<const std::string_view> texts,
                          const TokenizerTraining& options) {
  const bool any =
      std::any_of(texts.begin(), texts.end(), [](std::string_view text) { return !text.empty(); });
  check_data(any, "train tokenizer", "there is no text to learn from");
  switch (options.kind) {
    case TokenizerKind::byte_bpe:
      return train_byte_bpe(texts, options);
    case TokenizerKind::wordpiece:
      return train_wordpiece(texts, options);
    case TokenizerKind::unigram:
      return text::train_unigram(texts, options);
    case TokenizerKind::character:
      break;
  }
  return train_character(texts, options);
}

Tokenizer train_tokenizer(std::span<const std::filesystem::path> files,
                          const TokenizerTraining& options) {
  std::vector<std::unique_ptr<MappedFile>> mapped;
  std::vector<std::string_view> texts;
  for (const std::filesystem::path& file : files_under(files)) {
    mapped.push_back(std::make_unique<MappedFile>(file));
    texts.push_back(mapped.back()->text());
  }
  return train_tokenizer(texts, options);
}

}  // namespace heed
