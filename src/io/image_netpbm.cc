#include <cstring>

#include "base/check.h"
#include "io/image_decode.h"

namespace heed {
namespace {

/// Reads the numbers of a PGM or PPM, skipping blanks and comments.
class Words {
 public:
  Words(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  uint64_t number(uint64_t high, std::string_view what) {
    skip_blanks();
    uint64_t value = 0;
    size_t digits = 0;
    while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
      value = value * 10 + static_cast<uint64_t>(text_[digits] - '0');
      check_data(value <= high, name_, "{} is more than {}", what, high);
      ++digits;
    }
    check_data(digits > 0, name_, "{} is missing or not a number", what);
    text_.remove_prefix(digits);
    return value;
  }

  /// The bytes after the single blank that ends the header.
  std::string_view rest() const { return text_.substr(text_.empty() ? 0 : 1); }

 private:
  static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  void skip_blanks() {
    while (!text_.empty() && (is_blank(text_[0]) || text_[0] == '#')) {
      const size_t count = text_[0] == '#' ? text_.find('\n') : 1;
      text_.remove_prefix(std::min(count, text_.size()));
    }
  }

  std::string_view text_;
  const std::string& name_;
};

uint8_t scaled(uint64_t value, uint64_t largest) {
  return static_cast<uint8_t>((value * 255 + largest / 2) / largest);
}

}  // namespace

Tensor decode_netpbm(std::string_view bytes, const std::string& name, uint64_t max_pixels) {
  const char kind = bytes[1];  // 2 and 5: grey, 3 and 6: colour; 2 and 3 as text
  check_data(kind != '4', name, "is a PBM bitmap; PGM and PPM are supported");
  const int channels = kind == '3' || kind == '6' ? 3 : 1;
  const bool as_text = kind == '2' || kind == '3';
  Words words(bytes.substr(2), name);
  const uint64_t width = words.number(1'000'000'000, "its width");
  const uint64_t height = words.number(1'000'000'000, "its height");
  const uint64_t largest = words.number(65535, "its largest value");
  check_data(largest > 0, name, "its largest value is 0");
  // Checked before allocating: a pixel as text takes at least a digit and a blank.
  const uint64_t each = as_text ? 2 : largest > 255 ? 2 : 1;
  const uint64_t pixels_at_most =
      (words.rest().size() + 2) / each / static_cast<uint64_t>(channels);
  check_data(width == 0 || height <= pixels_at_most / width, name,
             "{} x {} pixels are more than the file holds", width, height);
  Tensor pixels = empty_image(height, width, channels, name, max_pixels);
  uint8_t* out = pixels.data<uint8_t>();
  const auto count = static_cast<uint64_t>(pixels.numel());
  if (as_text) {
    for (uint64_t i = 0; i < count; ++i) {
      out[i] = scaled(words.number(largest, "a pixel"), largest);
    }
    return pixels;
  }
  const std::string_view data = words.rest();
  check_data(data.size() >= count * each, name, "ends after {} of {} bytes of pixels", data.size(),
             count * each);
  for (uint64_t i = 0; i < count; ++i) {
    const auto byte = [&](uint64_t at) {
      return static_cast<uint64_t>(static_cast<uint8_t>(data[at]));
    };
    const uint64_t value = each == 1 ? byte(i) : byte(2 * i) << 8 | byte(2 * i + 1);
    check_data(value <= largest, name, "a pixel of {} is more than the largest value {}", value,
               largest);
    out[i] = scaled(value, largest);
  }
  return pixels;
}

}  // namespace heed
