#include "base/check.h"
#include "base/file.h"
#include "base/parallel.h"
#include "heed/io.h"
#include "io/image_decode.h"

namespace heed {
namespace {

constexpr uint64_t kMaxSide = 65536;

/// [H, W, from] interleaved to [to, H, W] planes, converting between grey and colour.
Tensor planes_of(const Tensor& pixels, int64_t to) {
  const int64_t count = pixels.size(0) * pixels.size(1);
  const int64_t from = pixels.size(2);
  Tensor image = Tensor::empty({to, pixels.size(0), pixels.size(1)}, DType::u8);
  const uint8_t* in = pixels.data<uint8_t>();
  uint8_t* out = image.data<uint8_t>();
  parallel_ranges(count, 65536, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* pixel = in + i * from;
      if (from == 3 && to == 1) {
        // ITU-R 601 luma in 16 bits, as Pillow rounds it.
        const uint32_t luma = pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u;
        out[i] = static_cast<uint8_t>(luma >> 16);
        continue;
      }
      for (int64_t c = 0; c < to; ++c) {
        out[c * count + i] = pixel[from == 1 ? 0 : c];
      }
    }
  });
  return image;
}

void check_image(const Tensor& image, const char* op) {
  check(image.rank() == 3, op, "shape {} is not [channels, height, width]", image.shape());
}

}  // namespace

void check_image_size(uint64_t height, uint64_t width, const std::string& name,
                      uint64_t max_pixels) {
  check_data(height > 0 && width > 0, name, "is an image of {} x {} pixels", width, height);
  check_data(height <= kMaxSide && width <= kMaxSide && height * width <= max_pixels, name,
             "has {} x {} pixels; at most {} per side and {} million in total are supported", width,
             height, kMaxSide, max_pixels / 1'000'000);
}

Tensor empty_image(uint64_t height, uint64_t width, int channels, const std::string& name,
                   uint64_t max_pixels) {
  check_image_size(height, width, name, max_pixels);
  return Tensor::empty({static_cast<int64_t>(height), static_cast<int64_t>(width), channels},
                       DType::u8);
}

Tensor decode_image(std::string_view bytes, const std::string& name, int channels,
                    uint64_t max_pixels) {
  check(channels == 0 || channels == 1 || channels == 3, "decode_image",
        "{} channels; expected 0, 1 or 3", channels);
  Tensor pixels;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    pixels = decode_png(bytes, name, max_pixels);
  } else if (bytes.starts_with("\xff\xd8\xff")) {
    pixels = decode_jpeg(bytes, name, max_pixels);
  } else if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '2' && bytes[1] <= '6') {
    pixels = decode_netpbm(bytes, name, max_pixels);
  } else {
    fail(ErrorKind::data, name, "is not an image in a supported format (PNG, JPEG, PGM, PPM)");
  }
  return planes_of(pixels, channels == 0 ? pixels.size(2) : channels);
}

Tensor load_image(const std::filesystem::path& path, int channels) {
  const MappedFile file(path);
  Tensor image = decode_image(file.text(), path.native(), channels);
  file.check_not_truncated();
  return image;
}

Tensor center_crop(const Tensor& image, int64_t height, int64_t width) {
  check_image(image, "center_crop");
  check(height >= 0 && width >= 0 && height <= image.size(1) && width <= image.size(2),
        "center_crop", "{} x {} cannot be cropped from shape {}", height, width, image.shape());
  const int64_t top = (image.size(1) - height) / 2;
  const int64_t left = (image.size(2) - width) / 2;
  return image
      .alias({image.size(0), height, width}, image.strides(),
             top * image.strides()[1] + left * image.strides()[2])
      .contiguous();
}

Tensor normalize_image(const Tensor& image, const std::array<double, 3>& mean,
                       const std::array<double, 3>& stddev, double rescale) {
  check_image(image, "normalize_image");
  check(image.size(0) <= 3, "normalize_image", "shape {} has more than 3 channels", image.shape());
  Tensor result = Tensor::empty(image.shape());
  result.copy_from(image);
  float* values = result.data<float>();
  const int64_t plane = image.size(1) * image.size(2);
  for (int64_t c = 0; c < image.size(0); ++c) {
    const auto channel = static_cast<size_t>(c);
    check(stddev[channel] > 0, "normalize_image", "stddev {} is not above 0", stddev[channel]);
    for (int64_t i = c * plane; i < (c + 1) * plane; ++i) {
      values[i] = static_cast<float>((static_cast<double>(values[i]) * rescale - mean[channel]) /
                                     stddev[channel]);
    }
  }
  return result;
}

}  // namespace heed
