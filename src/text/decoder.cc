#include "text/decoder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) {
    return;
  }
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) {
    out.append(text, done);
    text = std::move(out);
  }
}

size_t bytes_of(const std::vector<std::string>& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) {
    bytes += token.size();
  }
  return bytes;
}

/// Decoders come with a model and are not trusted: one after the other could multiply a text
/// without end. Throws where the text of `before` bytes has become much longer.
void check_growth(size_t before, size_t now, std::string_view file) {
  constexpr size_t kMaxGrowth = 8;
  constexpr size_t kMaxAddition = 4096;
  check_data(now <= kMaxGrowth * before + kMaxAddition, file,
             "the tokenizer's decoders make a text more than {} times as long", kMaxGrowth);
}

void fuse(std::vector<std::string>& tokens) {
  std::string whole;
  for (const std::string& token : tokens) {
    whole += token;
  }
  tokens.clear();
  tokens.push_back(std::move(whole));
}

class ByteLevel final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string bytes;
      append_token_bytes(bytes, token);
      token = std::move(bytes);
    }
  }
};

/// English spacing, undone as Hugging Face does.
void clean_up(std::string& text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules{
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) {
    replace_all(text, from, to);
  }
}

class WordPiece final : public Decoder {
 public:
  explicit WordPiece(const Json& json)
      : prefix_(json.string_or("prefix", "##")), clean_up_(json.boolean_or("cleanup", true)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(token.begin(), ' ');
        }
      }
      if (clean_up_) {
        clean_up(token);
      }
    }
  }

 private:
  std::string prefix_;
  bool clean_up_;
};

class Metaspace final : public Decoder {
 public:
  explicit Metaspace(const Json& json)
      : replacement_(json.string_or("replacement", "\xE2\x96\x81")),
        prefixed_(json.string_or("prepend_scheme",
                                 json.boolean_or("add_prefix_space", true) ? "always" : "never") !=
                  "never") {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], replacement_, i == 0 && prefixed_ ? "" : " ");
    }
  }

 private:
  std::string replacement_;
  bool prefixed_;
};

class BpeSuffix final : public Decoder {
 public:
  explicit BpeSuffix(const Json& json) : suffix_(json.string_or("suffix", "</w>")) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

/// <0xE1> … become bytes. A run of them that is not UTF-8 as a whole becomes U+FFFD, one per byte.
class ByteFallback final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string run;
    const auto flush = [&] {
      if (!run.empty()) {
        std::string replaced;
        for (size_t i = 0; i < run.size(); ++i) {
          replaced += kReplacement;
        }
        out.push_back(is_valid_utf8(run) ? run : std::move(replaced));
        run.clear();
      }
    };
    for (std::string& token : tokens) {
      const int byte = byte_token_value(token);
      if (byte >= 0) {
        run += static_cast<char>(byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }
};

class Fuse final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override { fuse(tokens); }
};

class Strip final : public Decoder {
 public:
  explicit Strip(const Json& json)
      : content_(json.string_or("content", " ")),
        start_(json.integer_or("start", 0, 0, 1 << 20)),
        stop_(json.integer_or("stop", 0, 0, 1 << 20)) {
    if (content_.empty()) {
      json.at("content").refuse("is empty");
    }
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view view = token;
      for (int64_t i = 0; i < start_ && view.starts_with(content_); ++i) {
        view.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < stop_ && view.ends_with(content_); ++i) {
        view.remove_suffix(content_.size());
      }
      token = std::string(view);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class Replace final : public Decoder {
 public:
  explicit Replace(const Json& json)
      : pattern_(json), content_(json.string("content")), file_(json.file()) {}
  void apply(std::vector<std::string>& tokens) const override {
    const size_t before = bytes_of(tokens);
    size_t now = before;
    std::vector<Piece> matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_.find_all(token, matches);
      now += matches.size() * content_.size();
      check_growth(before, now, file_);
      std::string out;
      size_t done = 0;
      for (const Piece& match : matches) {
        out.append(token, done, match.begin - done);
        out += content_;
        done = match.end;
      }
      out.append(token, done);
      token = std::move(out);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
  std::string file_;
};

/// A sequence inside another one is part of it: each would multiply what the others made of a text.
class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(const Json& json) : file_(json.file()) { add(json); }
  void apply(std::vector<std::string>& tokens) const override {
    const size_t before = bytes_of(tokens);
    for (const auto& part : parts_) {
      part->apply(tokens);
      check_growth(before, bytes_of(tokens), file_);
    }
  }

 private:
  void add(const Json& json) {
    for (const Json& part : json.at("decoders").elements()) {
      if (part.string("type") == "Sequence") {
        add(part);
      } else {
        parts_.push_back(make_decoder(part));
      }
    }
  }

  std::string file_;
  std::vector<std::unique_ptr<Decoder>> parts_;
};

}  // namespace

int byte_token_value(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>' ||
      !std::isxdigit(static_cast<unsigned char>(token[3])) ||
      !std::isxdigit(static_cast<unsigned char>(token[4]))) {
    return -1;
  }
  return std::stoi(std::string(token.substr(3, 2)), nullptr, 16);
}

std::unique_ptr<Decoder> make_decoder(const Json& json) {
  const std::string type = json.string("type");
  if (type == "Sequence") return std::make_unique<DecoderSequence>(json);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "WordPiece") return std::make_unique<WordPiece>(json);
  if (type == "Metaspace") return std::make_unique<Metaspace>(json);
  if (type == "BPEDecoder") return std::make_unique<BpeSuffix>(json);
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return std::make_unique<Strip>(json);
  if (type == "Replace") return std::make_unique<Replace>(json);
  json.at("type").refuse("is not known here");
}

}  // namespace heed::text
