#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/longest_line.h"
#include "base/parallel.h"
#include "base/print_message.h"
#include "base/utf8.h"
#include "heed/command.h"
#include "heed/open.h"
#include "heed/text.h"
#include "io/json_writer.h"

namespace heed::app::tokenize_command {
namespace {

struct Options {
  std::string source;
  std::string train;
  std::vector<std::string> data;
  std::string output;
  bool decode = false;
  bool no_special = false;
};

constexpr size_t kBlockBytes = 1 << 22;  ///< input that is worked on at once
constexpr int64_t kLinesATile = 64;

/// Lines of standard input, in blocks. The last line may lack its end.
class LineReader {
 public:
  /// Fills `lines` with some more; false at the end of the input. Throws where a line is longer
  /// than kLongestLine.
  bool next(std::vector<std::string>& lines) {
    lines.clear();
    while (lines.empty() && !ended_) {
      const size_t old = rest_.size();
      check_data(old <= kLongestLine, "stdin", "line {} is longer than {} bytes", done_ + 1,
                 kLongestLine);
      rest_.resize(old + kBlockBytes);
      size_t got = 0;
      while (got < kBlockBytes && !ended_) {
        const ssize_t n = read(STDIN_FILENO, rest_.data() + old + got, kBlockBytes - got);
        if (n < 0 && errno == EINTR) {
          continue;
        }
        check(n >= 0, "stdin", "cannot be read");
        ended_ = n == 0;
        got += static_cast<size_t>(n);
        if (n > 0 && rest_[old + got - 1] == '\n') {
          break;  // somebody is typing, or the block ends well
        }
      }
      rest_.resize(old + got);
      cut(lines);
    }
    return !lines.empty();
  }

 private:
  void cut(std::vector<std::string>& lines) {
    size_t begin = 0;
    for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
      lines.push_back(rest_.substr(begin, end - begin));
      begin = end + 1;
    }
    rest_.erase(0, begin);
    if (ended_ && !rest_.empty()) {
      lines.push_back(std::move(rest_));
      rest_.clear();
    }
    done_ += static_cast<int64_t>(lines.size());
  }

  std::string rest_;
  bool ended_ = false;
  int64_t done_ = 0;  // lines given
};

std::string encode_line(const Tokenizer& tokenizer, const std::string& line, bool special,
                        bool json) {
  if (!json) {
    std::string out;
    for (const TokenId id : tokenizer.encode_ids(line, special)) {
      if (!out.empty()) {
        out += ' ';
      }
      out += fmt::format_int(id).c_str();
    }
    return out;
  }
  const Encoding encoding = tokenizer.encode(line, special);
  JsonWriter object;
  object.begin_object().field("ids", encoding.ids).field("tokens", encoding.tokens);
  object.key("offsets").begin_array();
  for (const TextSpan& span : encoding.offsets) {
    object.begin_array().value(span.begin).value(span.end).end_array();
  }
  return object.end_array().end_object().take();
}

bool separates_ids(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0 || c == ',' || c == '[' || c == ']';
}

[[noreturn]] void refuse_id(const std::string& line, const char* at) {
  const char* end = line.data() + line.size();
  while (at > line.data() && !separates_ids(at[-1])) {
    --at;
  }
  fail(ErrorKind::data, "stdin", "{} is not an id",
       quote(std::string(at, std::find_if(at, end, separates_ids)), 40));
}

std::vector<TokenId> parse_ids(const std::string& line) {
  std::vector<TokenId> ids;
  const char* next = line.data();
  const char* end = next + line.size();
  while (next < end) {
    if (separates_ids(*next)) {
      ++next;
      continue;
    }
    TokenId id = 0;
    const auto [after, error] = std::from_chars(next, end, id);
    if (error != std::errc() || (after < end && !separates_ids(*after))) {
      refuse_id(line, next);
    }
    ids.push_back(id);
    next = after;
  }
  return ids;
}

std::string decode_line(const Tokenizer& tokenizer, const std::string& line, bool json) {
  std::string text = tokenizer.decode(parse_ids(line));
  return json ? JsonWriter().begin_object().field("text", text).end_object().take() : text;
}

/// Trains a tokenizer on files and writes it.
int train(const Options& options, const Common& common) {
  if (options.data.empty() || options.output.empty()) {
    fail(ErrorKind::usage, "tokenize", "--train needs --data FILE… and -o FILE");
  }
  const TokenizerTraining training = parse_tokenizer_kind(options.train);
  const std::filesystem::path output(options.output);
  const std::filesystem::path folder =
      output.extension() == ".json" ? output.parent_path() : output;
  if (!folder.empty()) {
    make_folder(folder);
  }
  AtomicFile probe(folder / "tokenizer.json");  // an unwritable place is told before the work
  const std::vector<std::filesystem::path> files(options.data.begin(), options.data.end());
  const Tokenizer tokenizer = train_tokenizer(files, training);
  tokenizer.save(options.output);
  if (common.json) {
    JsonWriter line;
    line.begin_object().field("vocab_size", tokenizer.vocab_size()).field("file", options.output);
    std::puts(line.end_object().take().c_str());
  } else if (!common.quiet) {
    print_message(tell("{}: {} tokens", options.output, tokenizer.vocab_size()));
  }
  return 0;
}

int run(const Options& options, const Common& common) {
  if (!options.train.empty()) {
    return train(options, common);
  }
  if (options.source.empty()) {
    fail(ErrorKind::usage, "tokenize", "a model folder or tokenizer file is wanted");
  }
  const Tokenizer tokenizer = Tokenizer::load(options.source);
  LineReader reader;
  std::vector<std::string> lines;
  std::vector<std::string> results;
  while (reader.next(lines)) {
    results.assign(lines.size(), {});
    parallel_ranges(
        static_cast<int64_t>(lines.size()), kLinesATile, [&](int64_t begin, int64_t end) {
          for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            results[i] = options.decode
                             ? decode_line(tokenizer, lines[i], common.json)
                             : encode_line(tokenizer, lines[i], !options.no_special, common.json);
            results[i] += '\n';
          }
        });
    for (const std::string& result : results) {
      print(result);
    }
    print_now("");
  }
  return 0;
}

const Registration kTokenize{{
    "tokenize",
    "Turn lines of text into token ids, or ids back into text",
    {"echo 'Hello world' | heed tokenize model/",
     "heed tokenize --train bpe:8192 --data books/ -o tokenizer.json"},
    [](OptionTable& table, const Common& common) -> std::function<int()> {
      auto options = std::make_shared<Options>();
      table.add("MODEL", &options->source,
                "Model folder, tokenizer.json, vocab.json, vocab.txt, .model, .gguf or "
                "llama2.c's tokenizer .bin");
      table.add("--decode", &options->decode, "Read lines of ids and print their text");
      table.add("--no-special-tokens", &options->no_special,
                "Leave out tokens such as [CLS] and [SEP] around a text");
      table
          .add("--train", &options->train,
               "Train a tokenizer instead: char, bpe:N, wordpiece:N or unigram:N")
          .group("Training");
      table.add("--data", &options->data, "Text files or folders to train on")
          .group("Training")
          .file();
      table
          .add("-o,--output", &options->output,
               "Where the trained tokenizer goes: a folder or tokenizer.json")
          .file()
          .group("Training");
      return [options, &common] { return run(*options, common); };
    },
}};

}  // namespace
}  // namespace heed::app::tokenize_command
