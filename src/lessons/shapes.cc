#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/check.h"
#include "base/parallel.h"
#include "lessons/example_random.h"

namespace heed {
namespace {

constexpr int kSide = 32;  // pixels
constexpr int64_t kShapesTrain = 20000;
constexpr int64_t kShapesHeldOut = 500;

struct Color {
  std::string_view english, korean;
  std::array<uint8_t, 3> rgb;
};
constexpr std::array<Color, 6> kColors = {{{"red", "빨간", {214, 39, 40}},
                                           {"green", "초록", {44, 160, 44}},
                                           {"blue", "파란", {31, 90, 200}},
                                           {"yellow", "노란", {240, 200, 30}},
                                           {"purple", "보라", {130, 60, 170}},
                                           {"orange", "주황", {255, 127, 14}}}};

enum class Outline { circle, square, triangle };
constexpr std::array<std::string_view, 3> kOutlines = {"circle", "square", "triangle"};
constexpr std::array<std::string_view, 3> kKoreanOutlines = {"원", "사각형", "삼각형"};

struct Relation {
  std::string_view english, korean;
  int dx, dy;  // from the second shape to the first
};
constexpr std::array<Relation, 4> kRelations = {{{"left of", "왼쪽에", -1, 0},
                                                 {"right of", "오른쪽에", 1, 0},
                                                 {"above", "위에", 0, -1},
                                                 {"below", "아래에", 0, 1}}};

struct Drawn {
  Color color;
  Outline outline;
};

bool covers(Outline outline, double dx, double dy, double radius) {
  switch (outline) {
    case Outline::circle:
      return dx * dx + dy * dy <= radius * radius;
    case Outline::square:
      return std::abs(dx) <= radius * 0.9 && std::abs(dy) <= radius * 0.9;
    case Outline::triangle:
      break;
  }
  return dy <= radius * 0.9 && std::abs(dx) <= (dy + radius) * 0.55;
}

/// Every pixel is the mean of 2 x 2 points, which softens the edges.
void draw(uint8_t* pixels, const Drawn& shape, double x, double y, double radius) {
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      int inside = 0;
      for (int point = 0; point < 4; ++point) {
        const int right = point % 2, below = point / 2;
        inside += covers(shape.outline, column + 0.25 + 0.5 * right - x,
                         row + 0.25 + 0.5 * below - y, radius);
      }
      uint8_t* pixel = pixels + (row * kSide + column) * 3;
      for (int channel = 0; channel < 3; ++channel) {
        pixel[channel] = static_cast<uint8_t>(
            (pixel[channel] * (4 - inside) + shape.color.rgb[channel] * inside) / 4);
      }
    }
  }
}

std::string name_of(const Drawn& shape, Language language) {
  const auto outline = static_cast<size_t>(shape.outline);
  if (language == Language::korean) {
    return fmt::format("{} {}", shape.color.korean, kKoreanOutlines[outline]);
  }
  return fmt::format("{} {} {}", shape.color.english == "orange" ? "an" : "a", shape.color.english,
                     kOutlines[outline]);
}

std::string caption_of(const Drawn& first, const Drawn& second, const Relation& relation,
                       Language language) {
  if (language == Language::korean) {
    return fmt::format("{} {} 있는 {}", name_of(second, language), relation.korean,
                       name_of(first, language));
  }
  return fmt::format("{} {} {}", name_of(first, language), relation.english,
                     name_of(second, language));
}

}  // namespace

ShapesExample shapes_example(const SyntheticOptions& options, uint64_t index) {
  Random random = example_random(options, SyntheticStream::shapes, index);
  const auto draw_shape = [&] {
    const Color color = pick(random, kColors);
    return Drawn{color, static_cast<Outline>(random.below(3))};
  };
  const auto jitter = [&](double low, double high) {
    return low + (high - low) * random.uniform();
  };
  ShapesExample example;
  example.pixels = Tensor::full({kSide, kSide, 3}, 245, DType::u8);
  auto* pixels = example.pixels.data<uint8_t>();
  const Drawn first = draw_shape();
  if (random.below(4) == 0) {  // one shape alone
    const double radius = jitter(4, 9);
    const double x = jitter(radius + 1, kSide - radius - 1);
    draw(pixels, first, x, jitter(radius + 1, kSide - radius - 1), radius);
    example.caption = name_of(first, options.language);
    return example;
  }
  const Drawn second = draw_shape();
  const Relation relation = pick(random, kRelations);
  for (const int side : {1, -1}) {  // the first shape stands on the relation's side of the middle
    // The larger shape is named first: without such a rule every drawing had two right captions.
    const double radius = side == 1 ? jitter(5.8, 7) : jitter(3.8, 4.8);
    const double along = side * jitter(7.5, 9);
    const double across = jitter(-7, 7);
    const double x = kSide / 2.0 + (relation.dx != 0 ? relation.dx * along : across);
    const double y = kSide / 2.0 + (relation.dy != 0 ? relation.dy * along : across);
    draw(pixels, side == 1 ? first : second, x, y, radius);
  }
  example.caption = caption_of(first, second, relation, options.language);
  return example;
}

ImageData shapes_images(const SyntheticOptions& options, int64_t count) {
  check(count > 0, "shapes", "{} examples", count);
  ImageData data;
  data.pixels = Tensor::empty({count, 3, kSide, kSide}, DType::u8);
  data.captions.resize(static_cast<size_t>(count));
  constexpr int64_t kArea = int64_t{kSide} * kSide;
  parallel_for(count, [&](int64_t index) {
    ShapesExample example = shapes_example(options, static_cast<uint64_t>(index));
    data.captions[static_cast<size_t>(index)] = std::move(example.caption);
    const auto* from = example.pixels.data<uint8_t>();
    auto* to = data.pixels.data<uint8_t>() + index * 3 * kArea;
    for (int64_t i = 0; i < 3 * kArea; ++i) {
      to[i % 3 * kArea + i / 3] = from[i];
    }
  });
  return data;
}

void register_synthetic_datasets() {
  register_captioned_images("shapes", [](const std::string& variant, bool held_out) {
    SyntheticOptions options;
    options.language = parse_language(variant.empty() ? "en" : variant);
    options.held_out = held_out;
    return shapes_images(options, held_out ? kShapesHeldOut : kShapesTrain);
  });
}

}  // namespace heed
