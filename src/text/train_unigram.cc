#include "text/train_unigram.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "text/spm.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

constexpr size_t kLongestSentence = 1 << 14;
constexpr size_t kEnoughBytes = size_t{16} << 20;  ///< more text teaches it little and takes long

/// Lines of all texts, every so many of them where there is very much text. Longer ones than the
/// trainer takes come in parts.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::span<const std::string_view> texts) : texts_(texts) {
    size_t total = 0;
    for (const std::string_view text : texts) {
      total += text.size();
    }
    stride_ = 1 + total / kEnoughBytes;
    advance();
  }
  bool done() const override { return done_; }
  void Next() override {
    for (size_t i = 0; i < stride_ && !done_; ++i) {
      advance();
    }
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void advance() {
    while (rest_.empty() && next_ < texts_.size()) {
      rest_ = texts_[next_++];
    }
    done_ = rest_.empty();
    size_t end = std::min({rest_.find('\n'), rest_.size(), kLongestSentence});
    while (end < rest_.size() && end > 0 &&
           (static_cast<unsigned char>(rest_[end]) & 0xC0) == 0x80) {
      --end;
    }
    line_ = replace_invalid(rest_.substr(0, end));
    std::erase(line_, '\0');
    const bool newline = end < rest_.size() && rest_[end] == '\n';
    rest_.remove_prefix(newline ? end + 1 : std::max<size_t>(end, done_ ? 0 : 1));
  }

  std::span<const std::string_view> texts_;
  size_t next_ = 0;
  size_t stride_ = 1;
  std::string_view rest_;
  std::string line_;
  bool done_ = false;
};

}  // namespace

Tokenizer train_unigram(std::span<const std::string_view> texts, const TokenizerTraining& options) {
  std::unordered_map<std::string, std::string> settings{
      {"model_type", "unigram"},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"hard_vocab_limit", "false"},
      {"character_coverage", "0.9999"},
      {"pad_id", "0"},
      {"eos_id", "1"},
      {"unk_id", "2"},
      {"bos_id", "-1"},
      {"num_threads", "4"},  // the sums depend on it, so it is not the machine's number
      {"max_sentence_length", std::to_string(4 * kLongestSentence)},
      {"shuffle_input_sentence", "false"},
      {"minloglevel", "2"},
  };
  std::string symbols;
  for (const std::string& token : options.special_tokens) {
    if (token != "<pad>" && token != "</s>" && token != "<unk>") {
      check(token.find(',') == std::string::npos, "train tokenizer",
            "special token '{}' has a comma, which SentencePiece cannot take", token);
      symbols += (symbols.empty() ? "" : ",") + token;
    }
  }
  if (!symbols.empty()) {
    settings["control_symbols"] = symbols;
  }
  Lines lines(texts);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  check_data(status.ok(), "train tokenizer", "SentencePiece cannot train on this: {}",
             status.ToString());
  SpmVocabulary vocabulary = read_sentencepiece(model, "trained tokenizer");
  vocabulary.add_eos = true;
  return Tokenizer(build_spm(vocabulary));
}

}  // namespace heed::text
