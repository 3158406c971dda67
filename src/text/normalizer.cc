#include "text/normalizer.h"

#include <optional>
#include <vector>

#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

/// Calls fn(code point, begin, end) for every character; true where it rewrote it itself.
template <class Fn>
void rewrite_characters(AlignedText& text, Fn&& fn) {
  Rewriter out(text);
  const std::string_view view = text.text();
  for (size_t i = 0; i < view.size();) {
    const CodePoint one = decode_one(view.data() + i, view.data() + view.size());
    if (!one.valid || !fn(out, one.code, i, i + one.length)) {
      out.keep(i, i + one.length);
    }
    i += one.length;
  }
  out.commit();
}

/// Writes `whole` for bytes [begin, end) character by character, so that each stands for its own
/// bytes; false (and nothing written) where the form puts several together or in another order.
bool put_characters(Rewriter& out, std::string_view view, size_t begin, size_t end, NormalForm form,
                    std::string_view whole) {
  struct Character {
    std::string form;
    size_t begin, end;
  };
  std::vector<Character> characters;
  for (size_t i = begin; i < end;) {
    const size_t next = i + decode_one(view.data() + i, view.data() + end).length;
    Character& one = characters.emplace_back(Character{{}, i, next});
    append_normalized(one.form, view.substr(i, next - i), form);
    if (!whole.starts_with(one.form)) {
      return false;
    }
    whole.remove_prefix(one.form.size());
    i = next;
  }
  for (const Character& one : characters) {
    out.put(one.form, one.begin, one.end);
  }
  return true;
}

void normalize_form(AlignedText& text, NormalForm form) {
  const std::string_view view = text.text();
  if (is_ascii(view)) {
    return;
  }
  Rewriter out(text);
  std::string buffer;
  for (size_t i = 0; i < view.size();) {
    size_t end = i + 1;
    const auto ascii = [&](size_t k) { return static_cast<unsigned char>(view[k]) < 0x80; };
    if (ascii(i) && (end == view.size() || ascii(end))) {
      out.keep(i, end);
      i = end;
      continue;
    }
    end = segment_end(view, i, form);
    const std::string_view cluster = view.substr(i, end - i);
    buffer.clear();
    append_normalized(buffer, cluster, form);
    if (buffer == cluster) {
      out.keep(i, end);
    } else if (i + decode_one(view.data() + i, view.data() + end).length == end ||
               !put_characters(out, view, i, end, form, buffer)) {
      out.put(buffer, i, end);
    }
    i = end;
  }
  out.commit();
}

void lowercase(AlignedText& text) {
  std::string buffer;
  rewrite_characters(text, [&](Rewriter& out, char32_t code, size_t begin, size_t end) {
    buffer.clear();
    append_lower(buffer, code);
    out.put(buffer, begin, end);
    return true;
  });
}

void strip_accents(AlignedText& text) {
  if (is_ascii(text.text())) {
    return;
  }
  rewrite_characters(
      text, [](Rewriter&, char32_t code, size_t, size_t) { return is_nonspacing_mark(code); });
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class Form final : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void apply(AlignedText& text) const override { normalize_form(text, form_); }

 private:
  NormalForm form_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(AlignedText& text) const override { lowercase(text); }
};

class StripAccents final : public Normalizer {
 public:
  void apply(AlignedText& text) const override {  // all marks, the spacing ones too
    rewrite_characters(text, [](Rewriter&, char32_t code, size_t, size_t) {
      const auto kind = category(code);
      return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
             kind == UTF8PROC_CATEGORY_ME;
    });
  }
};

class BertClean final : public Normalizer {
 public:
  explicit BertClean(const Json& json)
      : clean_(json.boolean_or("clean_text", true)),
        chinese_(json.boolean_or("handle_chinese_chars", true)),
        lowercase_(json.boolean_or("lowercase", true)),
        strip_(json.boolean_or("strip_accents", lowercase_)) {}

  void apply(AlignedText& text) const override {
    if (clean_ || chinese_) {
      rewrite_characters(text, [&](Rewriter& out, char32_t code, size_t begin, size_t end) {
        return clean_one(out, code, begin, end);
      });
    }
    if (strip_) {
      normalize_form(text, NormalForm::nfd);
      strip_accents(text);
    }
    if (lowercase_) {
      lowercase(text);
    }
  }

 private:
  bool clean_one(Rewriter& out, char32_t code, size_t begin, size_t end) const {
    if (clean_) {
      const bool plain_space = code == '\t' || code == '\n' || code == '\r';
      if (code == 0 || code == 0xFFFD || (!plain_space && is_other(code))) {
        return true;
      }
      if (plain_space || is_space(code)) {
        out.put(" ", begin, end);
        return true;
      }
    }
    if (chinese_ && is_chinese(code)) {
      out.put(" ", begin, begin);
      out.keep(begin, end);
      out.put(" ", end, end);
      return true;
    }
    return false;
  }

  bool clean_, chinese_, lowercase_, strip_;
};

class Strip final : public Normalizer {
 public:
  explicit Strip(const Json& json)
      : left_(json.boolean_or("strip_left", true)), right_(json.boolean_or("strip_right", true)) {}
  void apply(AlignedText& text) const override {
    const std::string_view view = text.text();
    size_t first = view.size();
    size_t last = 0;
    for (size_t i = 0; i < view.size();) {
      const CodePoint one = decode_one(view.data() + i, view.data() + view.size());
      if (!is_space(one.code)) {
        first = std::min(first, i);
        last = i + one.length;
      }
      i += one.length;
    }
    const size_t begin = left_ ? first : 0;
    const size_t end = right_ ? std::max(last, begin) : view.size();
    Rewriter out(text);
    out.keep(begin, std::max(begin, end));
    out.commit();
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText& text) const override {
    if (text.text().empty()) {
      return;
    }
    const std::string_view view = text.text();
    Rewriter out(text);
    out.put(prefix_, 0, decode_one(view.data(), view.data() + view.size()).length);
    out.keep(0, view.size());
    out.commit();
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  explicit Replace(const Json& json) : pattern_(json), content_(json.string("content")) {}
  void apply(AlignedText& text) const override {
    std::vector<Piece> matches;
    pattern_.find_all(text.text(), matches);
    if (matches.empty()) {
      return;
    }
    Rewriter out(text);
    size_t done = 0;
    for (const Piece& match : matches) {
      out.keep(done, match.begin);
      out.put(content_, match.begin, match.end);
      done = match.end;
    }
    out.keep(done, text.text().size());
    out.commit();
  }

 private:
  Pattern pattern_;
  std::string content_;
};

/// NMT's clean-up: control characters go, odd spaces become plain ones.
class Nmt final : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    rewrite_characters(text, [](Rewriter& out, char32_t c, size_t begin, size_t end) {
      if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
          c == 0x9F) {
        return true;
      }
      if (c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
          c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD) {
        out.put(" ", begin, end);
        return true;
      }
      return false;
    });
  }
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    Rewriter out(text);
    const std::string_view view = text.text();
    for (size_t i = 0; i < view.size(); ++i) {
      out.put(byte_to_text(static_cast<unsigned char>(view[i])), i, i + 1);
    }
    out.commit();
  }
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const Json& json) {
    for (size_t i = 0; i < json.at("normalizers").size(); ++i) {
      parts_.push_back(make_normalizer(json.at("normalizers")[i]));
    }
  }
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) {
      part->apply(text);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::optional<NormalForm> form_named(std::string_view type) {
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& json) {
  const std::string type = json.string("type");
  if (const auto form = form_named(type)) return std::make_unique<Form>(*form);
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(json);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "BertNormalizer") return std::make_unique<BertClean>(json);
  if (type == "Strip") return std::make_unique<Strip>(json);
  if (type == "Prepend") return std::make_unique<Prepend>(json.string("prepend"));
  if (type == "Replace") return std::make_unique<Replace>(json);
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Precompiled") {
    return make_precompiled(json.string_or("precompiled_charsmap", ""), json.file());
  }
  json.at("type").refuse("is not known here");
}

void sanitize(AlignedText& text) {
  Rewriter out(text);
  const std::string_view view = text.text();
  for (size_t i = 0; i < view.size();) {
    const CodePoint one = decode_one(view.data() + i, view.data() + view.size());
    if (one.valid) {
      out.keep(i, i + one.length);
    } else {
      out.put(kReplacement, i, i + one.length);
    }
    i += one.length;
  }
  out.commit();
}

}  // namespace heed::text
