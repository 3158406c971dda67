#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/language.h"
#include "draw/heatmap.h"
#include "draw/scene.h"
#include "draw/text_width.h"
#include "heed/io.h"
#include "heed/picture.h"

namespace heed {
namespace {

constexpr double kSide = 200;  // the longer side of a panel
constexpr double kGap = 14;
constexpr double kTitle = 20;
constexpr Color kHeat{255, 120, 0};
constexpr double kMostOpaque = 0.8;

void check_picture(const PatchPicture& picture) {
  check(picture.image.defined() && picture.image.rank() == 3 && picture.image.size(2) == 3 &&
            picture.image.dtype() == DType::u8 && picture.image.numel() > 0,
        "PatchPicture", "the image must be u8 [height, width, 3]");
  check(!picture.panels.empty(), "PatchPicture", "there is no panel");
  for (const HeatmapPanel& panel : picture.panels) {
    check(panel.values.defined() && panel.values.rank() == 2 && panel.values.numel() > 0,
          "PatchPicture", "weights must be [patch rows, patch columns]");
  }
}

float largest(const Tensor& weights) {
  const Tensor values = weights.detach().to(DType::f32).contiguous();
  float most = 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    const float value = values.data<float>()[i];
    most = std::isfinite(value) ? std::max(most, value) : most;
  }
  return most;
}

/// How the weights of each panel become opacity: as the colours of a heat map.
std::vector<ColorRange> ranges_of(const PatchPicture& picture) {
  constexpr double kDecades = 1e-4;  // of the logarithmic scale
  std::vector<ColorRange> ranges;
  double all = 0;
  for (const HeatmapPanel& panel : picture.panels) {
    ranges.push_back({0, largest(panel.values), ColorScale::linear});
    all = std::max(all, ranges.back().high);
  }
  for (ColorRange& range : ranges) {
    if (picture.scale != ColorScale::row) {
      range.high = all;
    }
    if (picture.scale == ColorScale::absolute && all <= 1) {
      range = {0, 1, ColorScale::absolute};
    } else if (picture.scale == ColorScale::log && all > 0) {
      range = {kDecades * all, all, ColorScale::log};
    }
  }
  return ranges;
}

/// The image, greyed, with the heat of every patch over it: u8 [H, W, 3].
Tensor heated(const Tensor& image, const Tensor& weights, const ColorRange& range) {
  const Tensor from = image.contiguous();
  const Tensor heat = weights.detach().to(DType::f32).contiguous();
  const int64_t height = from.size(0), width = from.size(1);
  const int64_t rows = heat.size(0), columns = heat.size(1);
  const float* w = heat.data<float>();
  Tensor result = Tensor::empty({height, width, 3}, DType::u8);
  const auto* in = from.data<uint8_t>();
  auto* out = result.data<uint8_t>();
  const double paint[3] = {kHeat.red, kHeat.green, kHeat.blue};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* pixel = in + 3 * (y * width + x);
      const float weight = w[y * rows / height * columns + x * columns / width];
      const double opacity =
          weight > 0 && range.high > 0 ? std::clamp(range.share(weight), 0.0, 1.0) : 0.0;
      const double grey = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
      for (int i = 0; i < 3; ++i) {
        const double base = 0.5 * pixel[i] + 0.5 * grey;
        out[3 * (y * width + x) + i] =
            static_cast<uint8_t>(std::lround(base + kMostOpaque * opacity * (paint[i] - base)));
      }
    }
  }
  return result;
}

Scene patch_scene(const PatchPicture& picture) {
  check_picture(picture);
  const auto count = static_cast<int64_t>(picture.panels.size());
  const int64_t across = panels_per_row(count, picture.panels_across);
  const std::vector<ColorRange> ranges = ranges_of(picture);
  const int64_t down = (count + across - 1) / across;
  const auto tall = static_cast<double>(picture.image.size(0));
  const auto wide = static_cast<double>(picture.image.size(1));
  const double unit = kSide / std::max(tall, wide);
  const double top = kGap + (picture.title.empty() ? 0 : 28);
  Scene scene;
  scene.title = picture.title;
  scene.description =
      fmt::format(fmt::runtime(in_language(picture.language,
                                           say("{} picture(s) of the weights of image patches"))),
                  count);
  scene.width = std::max(kGap + static_cast<double>(across) * (wide * unit + kGap),
                         1.12 * text_extent(picture.title, 16) + 2 * kGap);
  scene.height = top + static_cast<double>(down) * (tall * unit + kTitle + kGap);
  if (!picture.title.empty()) {
    SceneItem& title =
        scene.label(scene.width / 2, kGap + 9, picture.title, 16, SceneItem::Anchor::middle);
    title.bold = true;
    title.attributes = " class=\"title\"";
  }
  for (int64_t i = 0; i < count; ++i) {
    const HeatmapPanel& panel = picture.panels[static_cast<size_t>(i)];
    const int64_t column = i % across, row = i / across;
    const double x = kGap + static_cast<double>(column) * (wide * unit + kGap);
    const double y = top + static_cast<double>(row) * (tall * unit + kTitle + kGap);
    SceneItem& label = scene.label(x + wide * unit / 2, y + kTitle / 2, shorten(panel.title, 28),
                                   12, SceneItem::Anchor::middle);
    label.attributes = " class=\"panel-title\"";
    scene
        .image(x, y + kTitle, wide * unit, tall * unit,
               heated(picture.image, panel.values, ranges[static_cast<size_t>(i)]))
        .attributes = fmt::format(" class=\"patches\" data-rows=\"{}\" data-columns=\"{}\"",
                                  panel.values.size(0), panel.values.size(1));
  }
  return scene;
}

}  // namespace

std::string to_svg(const PatchPicture& picture) { return scene_to_svg(patch_scene(picture)); }

std::string to_png(const PatchPicture& picture, double scale) {
  return encode_png(scene_to_pixels(patch_scene(picture), scale));
}

}  // namespace heed
