#include <gtest/gtest.h>

#include "draw/fonts.h"
#include "heed/io.h"
#include "heed/picture.h"
#include "heed/runtime.h"
#include "support/error.h"

namespace heed {
namespace {

PatchPicture two_by_two() {
  PatchPicture picture;
  picture.title = "가운데";
  picture.image = Tensor::full({8, 8, 3}, 100, DType::u8);
  picture.panels.push_back({"Head 0", Tensor::from({0.0F, 0.0F, 0.0F, 0.9F}, {2, 2})});
  picture.panels.push_back({"<Head>", Tensor::zeros({2, 2})});
  return picture;
}

TEST(Patches, LieOverTheImage) {
  HEED_DRAWS_TEXT;
  const PatchPicture picture = two_by_two();
  const std::string svg = to_svg(picture);
  size_t images = 0;
  for (size_t at = svg.find("<image "); at != std::string::npos; at = svg.find("<image ", at + 1)) {
    ++images;
  }
  EXPECT_EQ(images, 2U);
  EXPECT_NE(svg.find("&lt;Head&gt;"), std::string::npos);
  const Tensor pixels = decode_image(to_png(picture, 1.0), "patches.png", 3);  // [3, H, W]
  const int64_t height = pixels.size(1), width = pixels.size(2);
  // The first panel starts at (14, 62): its last quarter is the heat's, the others the image's.
  const auto red = [&](int64_t x, int64_t y) { return pixels.data<uint8_t>()[y * width + x]; };
  EXPECT_EQ(red(14 + 50, 62 + 50), 100);
  EXPECT_EQ(red(14 + 150, 62 + 150), 100 + 118);  // 0.8 of √0.9 of the way to 255
  EXPECT_EQ(red(14 + 200 + 14 + 150, 62 + 150), 100);
  EXPECT_GT(height, 262);
}

TEST(Patches, EvenWeightsLookPaleUnlessScaledToTheLargest) {
  HEED_DRAWS_TEXT;
  PatchPicture picture;
  picture.image = Tensor::full({8, 8, 3}, 100, DType::u8);
  picture.panels.push_back({"", Tensor::full({8, 8}, 1.0F / 64)});
  const auto red = [&] {
    const Tensor pixels = decode_image(to_png(picture, 1.0), "patches.png", 3);
    return static_cast<int>(pixels.data<uint8_t>()[100 * pixels.size(2) + 100]);
  };
  EXPECT_EQ(red(), 100 + 16);  // √(1/64) of 0.8 of the way to 255
  picture.scale = ColorScale::linear;
  EXPECT_EQ(red(), 100 + 124);
  picture.panels.push_back({"", Tensor::full({8, 8}, 1.0F / 16)});
  EXPECT_EQ(red(), 100 + 31);  // a quarter of the largest of all panels
  picture.scale = ColorScale::row;
  EXPECT_EQ(red(), 100 + 124);
}

TEST(Patches, RefuseWhatDoesNotFit) {
  PatchPicture picture = two_by_two();
  picture.image = Tensor::zeros({8, 8, 3});
  EXPECT_ERROR(to_svg(picture), "PatchPicture: the image must be u8 [height, width, 3]");
  picture = two_by_two();
  picture.panels.clear();
  EXPECT_ERROR(to_png(picture), "PatchPicture: there is no panel");
}

}  // namespace
}  // namespace heed
