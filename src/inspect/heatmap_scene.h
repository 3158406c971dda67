#pragma once

#include "inspect/heatmap.h"
#include "inspect/scene.h"

namespace heed {

Scene heatmap_scene(const PreparedMap& map, const PictureOptions& options);

}  // namespace heed
