#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/file.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "support/data.h"
#include "support/error.h"

namespace heed {
namespace {

std::vector<uint8_t> bytes_of_tensor(const Tensor& x) { return x.to_vector<uint8_t>(); }

/// [H, W, 3] to [3, H, W], [H, W] to [1, H, W].
Tensor planes(const Tensor& pixels) {
  const Shape& shape = pixels.shape();
  if (shape.rank() == 2) {
    return pixels.alias({1, shape[0], shape[1]}, {0, pixels.strides()[0], 1}, 0).contiguous();
  }
  return pixels.alias({3, shape[0], shape[1]}, {1, shape[1] * 3, 3}, 0).contiguous();
}

TEST(Image, EveryFormatGivesPillowsPixels) {
  const TensorMap pixels = load_safetensors(test::golden("io/pixels.safetensors"));
  const std::pair<const char*, const char*> cases[] = {
      {"rgb.png", "rgb"},       {"rgba.png", "rgb"},
      {"gray.png", "gray"},     {"gray16.png", "gray"},
      {"rgb.ppm", "rgb"},       {"gray.pgm", "gray"},
      {"bits.png", "bits.png"}, {"palette.png", "palette.png"},
      {"rgb.jpg", "rgb.jpg"},   {"gray.jpg", "gray.jpg"}};
  for (const auto& [file, name] : cases) {
    const Tensor wanted = planes(pixels.at(name));
    const Tensor image = load_image(test::golden(std::string("io/") + file));
    EXPECT_EQ(image.shape(), wanted.shape()) << file;
    EXPECT_EQ(bytes_of_tensor(image), bytes_of_tensor(wanted)) << file;
  }
}

TEST(Image, ChannelsAreConverted) {
  const Tensor color = load_image(test::golden("io/gray.png"), 3);
  EXPECT_EQ(color.shape(), Shape({3, 5, 7}));
  const Tensor grey = load_image(test::golden("io/rgb.png"), 1);
  EXPECT_EQ(grey.shape(), Shape({1, 5, 7}));
  // Pixel (4, 6) is (160, 180, 46): luma 0.299 r + 0.587 g + 0.114 b
  EXPECT_EQ(bytes_of_tensor(grey).back(), 159);
  EXPECT_ERROR(load_image(test::golden("io/rgb.png"), 2),
               "decode_image: 2 channels; expected 0, 1 or 3");
}

TEST(Image, ResizeIsPillows) {
  const TensorMap golden = load_safetensors(test::golden("io/resized.safetensors"));
  const Tensor image = planes(golden.at("image"));
  int cases = 0;
  for (const auto& [name, wanted] : golden) {
    if (name == "image") {
      continue;
    }
    const Resample filter = name.starts_with("bilinear") ? Resample::bilinear : Resample::bicubic;
    const Tensor result = resize_image(image, wanted.size(0), wanted.size(1), filter);
    EXPECT_EQ(bytes_of_tensor(result), bytes_of_tensor(planes(wanted))) << name;
    // The f32 path differs by the rounding between the passes, 1.25 * 0.5, and at the end, 0.5.
    // Soft contrasts keep the u8 path from clipping.
    Tensor soft = image.clone();
    for (int64_t i = 0; i < soft.numel(); ++i) {
      uint8_t& value = soft.data<uint8_t>()[i];
      value = static_cast<uint8_t>(value * 2 / 5 + 75);
    }
    const auto a = resize_image(soft.to(DType::f32), wanted.size(0), wanted.size(1), filter)
                       .to_vector<float>();
    const auto b = resize_image(soft, wanted.size(0), wanted.size(1), filter).to_vector<float>();
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_LE(std::abs(a[i] - b[i]), 1.13f) << name;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 16);
}

TEST(Image, ResizeKeepsAConstantAndRefusesNonsense) {
  const Tensor flat = Tensor::full({3, 17, 9}, 7.25);
  for (const Resample filter : {Resample::bilinear, Resample::bicubic}) {
    for (const float value : resize_image(flat, 5, 31, filter).to_vector<float>()) {
      EXPECT_NEAR(value, 7.25, 1e-5);
    }
  }
  EXPECT_ERROR(resize_image(flat, 0, 5),
               "resize_image: 0 x 5 is out of range; 1 to 65536 are possible");
  EXPECT_ERROR(resize_image(flat, 5, 1 << 20),
               "resize_image: 5 x 1048576 is out of range; 1 to 65536 are possible");
  EXPECT_ERROR(resize_image(Tensor::zeros({5, 5}), 5, 5),
               "resize_image: shape [5, 5] is not [channels, height, width]");
  EXPECT_ERROR(resize_image(Tensor::zeros({1, 0, 5}), 5, 5),
               "resize_image: shape [1, 0, 5] is not [channels, height, width]");
  EXPECT_ERROR(resize_image(Tensor::zeros({1, 5, 5}, DType::i64), 5, 5),
               "resize_image: takes u8 and f32 images, not i64");
}

TEST(Image, CropAndNormalize) {
  const Tensor image = Tensor::arange(24, DType::u8).alias({1, 4, 6}, {24, 6, 1}, 0);
  EXPECT_EQ(bytes_of_tensor(center_crop(image, 2, 2)), (std::vector<uint8_t>{8, 9, 14, 15}));
  EXPECT_ERROR(center_crop(image, 5, 2),
               "center_crop: 5 x 2 cannot be cropped from shape [1, 4, 6]");
  const Tensor rgb = Tensor::full({3, 1, 1}, 255, DType::u8);
  EXPECT_EQ(normalize_image(rgb, {0.5, 0.5, 0.0}, {0.5, 0.25, 1.0}).to_vector<float>(),
            (std::vector<float>{1, 2, 1}));
  EXPECT_ERROR(normalize_image(rgb, {0, 0, 0}, {1, 0, 1}),
               "normalize_image: stddev 0 is not above 0");
}

TEST(Image, PngRoundTrip) {
  for (const Shape& shape : {Shape{5, 7}, Shape{5, 7, 3}, Shape{1, 1, 3}}) {
    Tensor pixels = Tensor::empty(shape, DType::u8);
    for (int64_t i = 0; i < pixels.numel(); ++i) {
      pixels.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
    }
    const Tensor back = decode_image(encode_png(pixels), "memory");
    EXPECT_EQ(bytes_of_tensor(back), bytes_of_tensor(planes(pixels)));
  }
  const test::TemporaryFolder folder;
  save_png(folder / "a.png", Tensor::zeros({2, 3, 4}, DType::u8));
  EXPECT_EQ(load_image(folder / "a.png").shape(), Shape({3, 2, 3}));
  EXPECT_ERROR(encode_png(Tensor::zeros({2, 3, 5}, DType::u8)),
               "encode_png: takes u8 [H, W], [H, W, 3] or [H, W, 4], not u8 [2, 3, 5]");
  EXPECT_ERROR(encode_png(Tensor::zeros({2, 3})),
               "encode_png: takes u8 [H, W], [H, W, 3] or [H, W, 4], not f32 [2, 3]");
  EXPECT_ERROR(encode_png(Tensor::zeros({0, 3}, DType::u8)),
               "encode_png: takes u8 [H, W], [H, W, 3] or [H, W, 4], not u8 [0, 3]");
}

void expect_data_error(const std::string& bytes, const std::string& what) {
  try {
    decode_image(bytes, "picture");
    ADD_FAILURE() << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data) << what;
    EXPECT_TRUE(std::string(error.what()).starts_with("picture: ")) << error.what();
  }
}

TEST(Image, EveryCutOfEveryFormatIsRefused) {
  for (const char* name :
       {"rgb.png", "palette.png", "rgb.jpg", "gray.jpg", "rgb.ppm", "gray.pgm"}) {
    const std::string whole = read_file(test::golden(std::string("io/") + name));
    for (size_t length = 0; length < whole.size(); ++length) {
      expect_data_error(whole.substr(0, length), name + std::string(" ") + std::to_string(length));
    }
  }
}

TEST(Image, ADamagedByteGivesAnImageOrAnError) {
  for (const char* name : {"rgb.png", "palette.png", "rgb.jpg", "rgb.ppm"}) {
    const std::string whole = read_file(test::golden(std::string("io/") + name));
    for (size_t i = 0; i < whole.size(); ++i) {
      for (const char value : {'\x00', '\xff', '\x7f'}) {
        std::string damaged = whole;
        damaged[i] = value;
        try {
          EXPECT_EQ(decode_image(damaged, "picture").rank(), 3);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::data);
        }
      }
    }
  }
}

TEST(Image, HugeAndNonsensicalSizesAreRefused) {
  std::string png = read_file(test::golden("io/rgb.png"));
  for (const std::string& size : {std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8),
                                  std::string("\x00\x01\x00\x00\x00\x01\x00\x00", 8),
                                  std::string("\x00\x00\x00\x00\x00\x00\x00\x01", 8)}) {
    expect_data_error(png.replace(16, 8, size), "png");
  }
  expect_data_error("P6 99999 99999 255\n", "ppm");
  expect_data_error("P6 99999999999999999999 1 255\n", "ppm");
  expect_data_error("P6 0 0 255\n", "ppm");
  expect_data_error("P6 1 1 0\nabc", "ppm");
  expect_data_error("P6 1 1 65536\nabcdef", "ppm");
  expect_data_error("P5 1 1 100\n\xff", "above the largest value");
  expect_data_error("P2 2 1 255\n1 x", "no number");
  expect_data_error("P3 1 1 255\n1 2 256", "above the largest value");
  expect_data_error("P4 8 1\n\x01", "bitmap");
  expect_data_error("GIF89a", "gif");
  expect_data_error("", "empty");
  EXPECT_EQ(bytes_of_tensor(decode_image("P2 # grey\n2 1\n# x\n15\n15 0", "p")),
            (std::vector<uint8_t>{255, 0}));
  EXPECT_EQ(bytes_of_tensor(decode_image(std::string("P5 1 1 65535\n\xff\xff", 15), "p")),
            (std::vector<uint8_t>{255}));
}

}  // namespace
}  // namespace heed
