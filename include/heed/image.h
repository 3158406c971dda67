#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "heed/tensor.h"

namespace heed {

/// An image file as u8 [C, H, W]: PNG, JPEG, PGM or PPM, told apart by content. `channels` is 1
/// (grey) or 3 (red, green, blue); 0 takes what the file has. Transparency is dropped, 16 bits are
/// scaled to 8. A corrupt or truncated file, or one of more than 100 million pixels, throws kind
/// data.
HEED_API Tensor load_image(const std::filesystem::path& path, int channels = 0);
/// The same for bytes in memory; `name` is for messages.
HEED_API Tensor decode_image(std::string_view bytes, const std::string& name, int channels = 0,
                             uint64_t max_pixels = 100'000'000);

enum class Resample { bilinear, bicubic };
/// [C, H, W] of u8 or f32 in a new size. Shrinking averages over all pixels that fall into one, as
/// Pillow does; u8 results are Pillow's to the bit.
HEED_API Tensor resize_image(const Tensor& image, int64_t height, int64_t width,
                             Resample filter = Resample::bilinear);
/// The middle [C, height, width] of an image, which must be as large.
HEED_API Tensor center_crop(const Tensor& image, int64_t height, int64_t width);
/// (image * rescale - mean) / stddev as f32 [C, H, W], with one mean and stddev per channel.
HEED_API Tensor normalize_image(const Tensor& image, const std::array<double, 3>& mean,
                                const std::array<double, 3>& stddev, double rescale = 1.0 / 255.0);

/// u8 [H, W], [H, W, 3] or [H, W, 4] as PNG.
HEED_API std::string encode_png(const Tensor& pixels);
HEED_API void save_png(const std::filesystem::path& path, const Tensor& pixels);

}  // namespace heed
