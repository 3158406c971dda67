// Images are not trusted: what a small file may cost, and what its errors say.
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/file.h"
#include "heed/io.h"
#include "support/data.h"
#include "support/error.h"

namespace heed::test {
namespace {

/// The low bytes of a number, the highest first.
std::string big_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes; i-- > 0;) {
    out += static_cast<char>(value >> (8 * i) & 0xFF);
  }
  return out;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(data.size(), 4) + body + big_endian(sum, 4);
}

/// A grey PNG of 8 bits whose compressed pixels inflate to `raw`.
std::string png_of(uint32_t width, uint32_t height, const std::string& raw, int level = 9) {
  uLongf size = compressBound(raw.size());
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(raw.data()), raw.size(), level);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR",
               big_endian(width, 4) + big_endian(height, 4) + std::string("\x08\0\0\0\0", 5)) +
         chunk("IDAT", packed.substr(0, size / 2)) + chunk("IDAT", packed.substr(size / 2)) +
         chunk("IEND", "");
}

TEST(ImageLimits, PngsWithMoreCompressedPixelsThanTheyNeedAreNotInflated) {
  std::string pixels;
  for (int row = 0; row < 400; ++row) {
    pixels += '\0';
    for (int i = 0; i < 400; ++i) {
      pixels += static_cast<char>((row * 31 + i * 7) ^ (row * i));
    }
  }
  EXPECT_EQ(decode_image(png_of(400, 400, pixels, 0), "p").numel(), 160'000);  // stored
  EXPECT_EQ(decode_image(png_of(4, 4, std::string(20, '\0')), "p").numel(), 16);
  // 52 bytes of pixels take 64 KiB at most, whatever these would inflate to.
  EXPECT_ERROR(decode_image(png_of(4, 4, pixels, 0), "p"),
               "p: is a corrupt PNG: it has 160421 bytes of compressed pixels, but its 4 x 4 "
               "pixels take at most 65576");
  std::string truncated = png_of(4, 4, std::string(20, '\0')).substr(0, 33);  // signature and IHDR
  truncated += big_endian(1'000'000, 4) + "IDAT" + "xxxxxxxx";
  EXPECT_ERROR(decode_image(truncated, "p"), "it has 1000000 bytes of compressed pixels");
}

TEST(ImageLimits, SizesAreRefusedBeforeARowIsAllocated) {
  const std::string thin = png_of(100'000'000, 1, "x");
  EXPECT_ERROR(decode_image(thin, "p"), "p: has 100000000 x 1 pixels; at most 65536 per side");
  EXPECT_ERROR(decode_image(png_of(400, 400, "x"), "p", 0, 100'000),
               "p: has 400 x 400 pixels; at most");
}

std::string segment(char marker, const std::string& data) {
  return std::string{'\xFF', marker} + big_endian(data.size() + 2, 2) + data;
}

/// A progressive grey JPEG of side x side pixels: a scan of the means, then `scans` empty ones.
std::string progressive_jpeg(int side, int scans) {
  const std::string zeros(15, '\0');
  std::string jpeg = "\xFF\xD8" + segment('\xDB', '\0' + std::string(64, '\1')) +
                     segment('\xC2', "\x08" + big_endian(static_cast<uint64_t>(side), 2) +
                                         big_endian(static_cast<uint64_t>(side), 2) +
                                         std::string("\1\1\x11\0", 4)) +
                     segment('\xC4', std::string("\0\1", 2) + zeros + std::string(1, '\0')) +
                     segment('\xC4', "\x10\1" + zeros + "\xE0");
  const int blocks = ((side + 7) / 8) * ((side + 7) / 8);
  jpeg += segment('\xDA', std::string("\1\1\0\0\0\0", 6)) +
          std::string(static_cast<size_t>(blocks + 7) / 8, '\0');
  // One run of 16384 + 0x2AAA empty blocks: a code of one bit and 14 more.
  const std::string run = segment('\xDA', std::string("\1\1\0\1\x3F\0", 6)) + "\x55\x55";
  for (int i = 0; i < scans; ++i) {
    jpeg += run;
  }
  return jpeg + "\xFF\xD9";
}

TEST(ImageLimits, JpegsOfManyScansAreRefused) {
  EXPECT_EQ(decode_image(progressive_jpeg(64, 99), "p").numel(), 64 * 64);
  EXPECT_ERROR(decode_image(progressive_jpeg(64, 100), "p"), "p: is a JPEG of more than 100 scans");
}

/// Their coefficients stay in memory until the last scan.
TEST(ImageLimits, ProgressiveJpegsCountTwice) {
  const std::string jpeg = progressive_jpeg(64, 1);
  EXPECT_EQ(decode_image(jpeg, "p", 0, 2 * 64 * 64).numel(), 64 * 64);
  EXPECT_ERROR(decode_image(jpeg, "p", 0, 2 * 64 * 64 - 1), "p: has 64 x 64 pixels in several");
}

TEST(ImageLimits, ErrorsAreInHeedsOwnWords) {
  const auto damaged = [](const std::string& file, size_t at, const std::string& bytes) {
    return std::string(file).replace(at, bytes.size(), bytes);
  };
  const std::string png = png_of(4, 4, std::string(20, '\0'));
  const std::string jpeg = read_file(golden("io/rgb.jpg"));
  const size_t head = jpeg.find("\xFF\xC0");
  const std::pair<std::string, std::string> cases[] = {
      {png.substr(0, png.size() - 13), "p: is a truncated PNG"},
      {png_of(4, 4, std::string(19, '\0')), "p: is a truncated PNG"},
      {damaged(png, 29, "xxxx"), "p: is a corrupt PNG: a checksum does not match its data"},
      {png.substr(0, 8) + chunk("IHDR", big_endian(4, 4) + big_endian(4, 4) + "\x03zzzz"),
       "p: is a corrupt PNG: its header is not valid"},
      {png.substr(0, 33) + chunk("\x1b[31", "xy") + png.substr(33), "p: is a corrupt PNG"},
      {jpeg.substr(0, jpeg.size() / 2), "p: is a truncated JPEG"},
      {jpeg.substr(0, 2) + segment('\xC4', "\x3f") + jpeg.substr(2), "p: is a corrupt JPEG"},
      {damaged(jpeg, head, "\xFF\xC3"), "p: is a JPEG of a kind that is not supported"},
  };
  ASSERT_NE(head, std::string::npos);
  for (const auto& [bytes, why] : cases) {
    const std::string message = message_of([&] { decode_image(bytes, "p"); }, ErrorKind::data);
    EXPECT_TRUE(message.starts_with(why)) << message;
    EXPECT_TRUE(message.size() == why.size() || message.find(';') != message.npos) << message;
  }
}

}  // namespace
}  // namespace heed::test
