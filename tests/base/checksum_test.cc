#include "base/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace heed {
namespace {

TEST(Checksum, Crc32HasTheKnownValueWholeAndInPieces) {
  EXPECT_EQ(crc32_of("123456789"), 0xcbf43926u);
  EXPECT_EQ(crc32_of("6789", crc32_of("12345")), 0xcbf43926u);
  EXPECT_EQ(crc32_of(""), 0u);
}

TEST(Checksum, EveryFlippedBitChangesBoth) {
  std::string text(100, 'x');
  std::set<uint32_t> checksums = {crc32_of(text)};
  std::set<uint64_t> fingerprints = {fingerprint_of(text)};
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(checksums.insert(crc32_of(text)).second);
    EXPECT_TRUE(fingerprints.insert(fingerprint_of(text)).second);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
  }
  EXPECT_NE(fingerprint_of("a", 1), fingerprint_of("a", 2));
  EXPECT_EQ(fingerprint_of(""), 0x2d06800538d394c2u);  // XXH3's published value
}

}  // namespace
}  // namespace heed
