#include <fmt/format.h>

#include <cmath>

#include "base/base64.h"
#include "draw/scene.h"
#include "draw/text_width.h"
#include "heed/io.h"

namespace heed {
namespace {

constexpr const char* kFont =
    "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans KR', 'Noto Sans CJK KR', 'Malgun "
    "Gothic', "
    "'Apple SD Gothic Neo', NanumGothic, sans-serif";

/// At most two decimals, without trailing zeros.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

std::string anchor_of(const SceneItem& item) {
  switch (item.anchor) {
    case SceneItem::Anchor::middle:
      return " text-anchor=\"middle\"";
    case SceneItem::Anchor::end:
      return " text-anchor=\"end\"";
    case SceneItem::Anchor::start:
      break;
  }
  return "";
}

void close(std::string& out, const SceneItem& item, const char* tag) {
  if (item.tooltip.empty()) {
    out += "/>\n";
  } else {
    out += fmt::format("><title>{}</title></{}>\n", escape_markup(visible_text(item.tooltip)), tag);
  }
}

void write_rectangle(std::string& out, const SceneItem& item) {
  const std::string paint =
      item.stroke < 0 ? fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"",
                                    hex(item.color), number(-item.stroke))
                      : fmt::format("fill=\"{}\" shape-rendering=\"crispEdges\"", hex(item.color));
  out +=
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}{}", number(item.x),
                  number(item.y), number(item.width), number(item.height), paint, item.attributes);
  close(out, item, "rect");
}

void write_text(std::string& out, const SceneItem& item) {
  const std::string place = item.upward
                                ? fmt::format("transform=\"translate({} {}) rotate(-90)\"",
                                              number(item.x), number(item.y))
                                : fmt::format("x=\"{}\" y=\"{}\"", number(item.x), number(item.y));
  out += fmt::format("<text {} dy=\"0.35em\" font-size=\"{}\" fill=\"{}\"{}{}{}>{}</text>\n", place,
                     number(item.size), hex(item.color), anchor_of(item),
                     item.bold ? " font-weight=\"600\"" : "", item.attributes,
                     escape_markup(item.text));
}

void write_line(std::string& out, const SceneItem& item) {
  std::string points;
  for (size_t i = 0; i + 1 < item.points.size(); i += 2) {
    points += fmt::format("{}{},{}", i == 0 ? "" : " ", number(item.points[i]),
                          number(item.points[i + 1]));
  }
  out += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "stroke-linejoin=\"round\"{}{}",
      points, hex(item.color), number(item.stroke), item.dashed ? " stroke-dasharray=\"6 4\"" : "",
      item.attributes);
  close(out, item, "polyline");
}

void write_image(std::string& out, const SceneItem& item) {
  out += fmt::format(
      "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
      "style=\"image-rendering:pixelated\"{} href=\"data:image/png;base64,",
      number(item.x), number(item.y), number(item.width), number(item.height), item.attributes);
  out += encode_base64(encode_png(item.pixels)) + "\"";
  close(out, item, "image");
}

}  // namespace

std::string scene_to_svg(const Scene& scene) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" font-family=\"{2}\">\n",
      number(scene.width), number(scene.height), kFont);
  out += fmt::format("<title>{}</title>\n", escape_markup(visible_text(scene.title)));
  if (!scene.description.empty()) {
    out += fmt::format("<desc>{}</desc>\n", escape_markup(visible_text(scene.description)));
  }
  out += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  for (const SceneItem& item : scene.items) {
    switch (item.kind) {
      case SceneItem::Kind::rectangle:
        write_rectangle(out, item);
        break;
      case SceneItem::Kind::text:
        write_text(out, item);
        break;
      case SceneItem::Kind::line:
        write_line(out, item);
        break;
      case SceneItem::Kind::image:
        write_image(out, item);
        break;
    }
  }
  return out + "</svg>\n";
}

}  // namespace heed
