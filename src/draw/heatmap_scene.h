#pragma once

#include "draw/heatmap.h"
#include "draw/scene.h"

namespace heed {

Scene heatmap_scene(const PreparedMap& map, const PictureOptions& options);

/// Units that a colour bar takes with its numbers; `titled`: the one of the whole picture, with the
/// name of the values, else a panel's own.
double color_bar_width(const ColorRange& range, bool titled);
void draw_color_bar(Scene& scene, const PreparedMap& map, const ColorRange& range, bool titled,
                    double x, double y, double height);

}  // namespace heed
