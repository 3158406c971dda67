#include "draw/scene.h"

#include <fmt/format.h>

#include <utility>

#include "draw/text_width.h"

namespace heed {

SceneItem& Scene::rectangle(double x, double y, double wide, double tall, const Color& color) {
  SceneItem item;
  item.kind = SceneItem::Kind::rectangle;
  item.x = x;
  item.y = y;
  item.width = wide;
  item.height = tall;
  item.color = color;
  return items.emplace_back(std::move(item));
}

SceneItem& Scene::label(double x, double y, const std::string& text, double size,
                        SceneItem::Anchor anchor) {
  SceneItem item;
  item.kind = SceneItem::Kind::text;
  item.x = x;
  item.y = y;
  item.size = size;
  item.anchor = anchor;
  item.color = {32, 33, 36};
  item.text = visible_text(text);
  return items.emplace_back(std::move(item));
}

SceneItem& Scene::line(std::vector<double> points, const Color& color, double stroke) {
  SceneItem item;
  item.kind = SceneItem::Kind::line;
  item.points = std::move(points);
  item.color = color;
  item.stroke = stroke;
  return items.emplace_back(std::move(item));
}

SceneItem& Scene::image(double x, double y, double wide, double tall, Tensor pixels) {
  SceneItem item;
  item.kind = SceneItem::Kind::image;
  item.x = x;
  item.y = y;
  item.width = wide;
  item.height = tall;
  item.pixels = std::move(pixels);
  return items.emplace_back(std::move(item));
}

double text_extent(std::string_view text, double size) {
  const std::string visible = visible_text(text);
  double total = 0;
  for (const Cluster& cluster : clusters_of(visible)) {
    total += cluster.width >= 2 ? 1.0 : cluster.width == 1 ? 0.6 : 0.0;
  }
  return total * size;
}

std::string hex(const Color& color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

}  // namespace heed
