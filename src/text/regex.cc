#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <new>

#include "base/check.h"
#include "base/per_thread.h"
#include "text/oniguruma.h"

namespace heed::text {
namespace {

constexpr size_t kLongestPattern = 1 << 16;
constexpr uint32_t kMatchLimit = 1'000'000;  ///< backtracks from one starting position
constexpr uint32_t kHeapLimitKib = 64 << 10;
constexpr size_t kSearchWindow = 256;  ///< starting positions between two looks at the clock
constexpr auto kPatience = std::chrono::seconds(2);

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Impl {
  std::string file;
  std::string pattern;
  pcre2_code* code = nullptr;
  ~Impl() { pcre2_code_free(code); }
};

namespace {

/// Memory for matching, one per thread: a compiled pattern is shared between threads. Only the
/// whole match is asked for, so it fits every pattern.
struct Matcher {
  Matcher()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32 << 10, 4 << 20, nullptr)) {
    if (data == nullptr || context == nullptr) {
      throw std::bad_alloc();
    }
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Matcher() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view file) : impl_(std::make_unique<Impl>()) {
  impl_->file = file;
  impl_->pattern = pattern;
  check_data(pattern.size() <= kLongestPattern, file, "a pattern of {} bytes is too long",
             pattern.size());
  const std::string translated = from_oniguruma(pattern, file);
  int error = 0;
  PCRE2_SIZE place = 0;
  impl_->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_MATCH_INVALID_UTF | PCRE2_USE_OFFSET_LIMIT,
      &error, &place, nullptr);
  check_data(impl_->code != nullptr, file, "pattern '{}' does not compile: {} (at {})", pattern,
             message_of(error), place);
  pcre2_jit_compile(impl_->code, PCRE2_JIT_COMPLETE);  // without JIT it is only slower
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<Piece>& matches) const {
  thread_local PerThread<Matcher> kept;
  const Matcher& matcher = kept.get();
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(matcher.data);
  const auto deadline =
      std::chrono::steady_clock::now() + kPatience + std::chrono::microseconds(text.size());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t start = 0;
  while (start < text.size()) {
    const size_t last = std::min(start + kSearchWindow, text.size());
    pcre2_set_offset_limit(matcher.context, last);
    const int n = pcre2_match(impl_->code, subject, text.size(), start, PCRE2_NOTEMPTY,
                              matcher.data, matcher.context);
    if (n >= 0 && found[1] > found[0]) {
      matches.push_back({found[0], found[1]});
      start = found[1];
      continue;
    }
    check_data(n == PCRE2_ERROR_NOMATCH || n >= 0, impl_->file,
               "pattern '{}' gave up on a text of {} bytes: {}", impl_->pattern, text.size(),
               message_of(n));
    check_data(std::chrono::steady_clock::now() < deadline, impl_->file,
               "pattern '{}' takes too long on a text of {} bytes", impl_->pattern, text.size());
    start = last + 1;
    while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
      ++start;
    }
  }
}

std::string quote_regex(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    const auto byte = static_cast<unsigned char>(c);  // `char` is unsigned on ARM
    if (byte < 0x80 && !std::isalnum(byte) && c != '\0') {
      out += '\\';
    }
    if (c == '\0') {
      out += "\\x00";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace heed::text
