#include "text/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) {
    return;
  }
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

void fuse(std::vector<std::string>& tokens) {
  std::string whole;
  for (const std::string& token : tokens) {
    whole += token;
  }
  tokens.assign(1, std::move(whole));
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
  explicit WordPiece(const Fields& fields)
      : prefix_(fields.text("prefix", "##")), clean_up_(fields.flag("cleanup", true)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        token = token.starts_with(prefix_) ? token.substr(prefix_.size()) : " " + token;
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
  explicit Metaspace(const Fields& fields)
      : replacement_(fields.text("replacement", "\xE2\x96\x81")),
        prefixed_(fields.text("prepend_scheme",
                              fields.flag("add_prefix_space", true) ? "always" : "never") !=
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
  explicit BpeSuffix(const Fields& fields) : suffix_(fields.text("suffix", "</w>")) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

/// <0xE1> … become bytes; what is not UTF-8 among them becomes U+FFFD, one a byte.
class ByteFallback final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string run;
    const auto flush = [&] {
      if (!run.empty()) {
        out.push_back(replace_invalid(run));
        run.clear();
      }
    };
    for (std::string& token : tokens) {
      const int byte = byte_of(token);
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

 private:
  static int byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>' ||
        !std::isxdigit(static_cast<unsigned char>(token[3])) ||
        !std::isxdigit(static_cast<unsigned char>(token[4]))) {
      return -1;
    }
    return std::stoi(token.substr(3, 2), nullptr, 16);
  }
};

class Fuse final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override { fuse(tokens); }
};

class Strip final : public Decoder {
 public:
  explicit Strip(const Fields& fields)
      : content_(fields.text("content", " ")),
        start_(fields.integer("start", 0)),
        stop_(fields.integer("stop", 0)) {
    check_data(!content_.empty(), fields.file(), "{} is empty", fields.path("content"));
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
  explicit Replace(const Fields& fields) : pattern_(fields), content_(fields.text("content")) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<Piece> matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_.find_all(token, matches);
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
};

class Sequence final : public Decoder {
 public:
  explicit Sequence(const Fields& fields) {
    for (size_t i = 0; i < fields.array("decoders").size(); ++i) {
      parts_.push_back(make_decoder(fields.element("decoders", i)));
    }
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (const auto& part : parts_) {
      part->apply(tokens);
    }
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Fields& fields) {
  const std::string type = fields.text("type");
  if (type == "Sequence") return std::make_unique<Sequence>(fields);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "WordPiece") return std::make_unique<WordPiece>(fields);
  if (type == "Metaspace") return std::make_unique<Metaspace>(fields);
  if (type == "BPEDecoder") return std::make_unique<BpeSuffix>(fields);
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return std::make_unique<Strip>(fields);
  if (type == "Replace") return std::make_unique<Replace>(fields);
  fail(ErrorKind::data, fields.file(), "{} '{}' is not known", fields.path("type"), type);
}

}  // namespace heed::text
