#include <algorithm>

#include "base/check.h"
#include "heed/train.h"

namespace heed {
namespace {

constexpr TrainPreset kPresets[] = {
    {"lm", "tiny", 4, 4, 128, 0, 128, 16, 1e-3, 0.0},
    {"lm", "small", 6, 6, 384, 0, 256, 16, 1e-3, 0.1},
    {"lm", "base", 12, 12, 768, 0, 512, 8, 3e-4, 0.1},
    {"mlm", "tiny", 2, 2, 128, 0, 128, 32, 1e-3, 0.0},
    {"mlm", "small", 4, 4, 256, 0, 128, 32, 5e-4, 0.1},
    {"mlm", "base", 12, 12, 768, 0, 256, 16, 1e-4, 0.1},
    {"embed", "tiny", 2, 2, 128, 0, 128, 32, 1e-3, 0.0},
    {"embed", "small", 4, 4, 256, 0, 128, 32, 5e-4, 0.1},
    {"embed", "base", 12, 12, 768, 0, 256, 16, 1e-4, 0.1},
    {"translate", "tiny", 2, 4, 128, 256, 64, 64, 2e-3, 0.1},
    {"translate", "small", 3, 4, 256, 512, 128, 128, 1e-3, 0.2},
    {"translate", "base", 6, 8, 512, 2048, 256, 64, 5e-4, 0.1},
    {"fid", "tiny", 2, 4, 128, 256, 96, 32, 1e-3, 0.0},
    {"fid", "small", 3, 4, 256, 512, 128, 32, 1e-3, 0.1},
    {"fid", "base", 6, 8, 512, 2048, 250, 16, 5e-4, 0.1},
    {"classify", "tiny", 1, 2, 64, 0, 64, 64, 2e-3, 0.1},
    {"classify", "small", 2, 4, 128, 0, 64, 128, 1e-3, 0.3},
    {"classify", "base", 12, 12, 768, 0, 128, 16, 5e-5, 0.1},
    {"image-classify", "tiny", 2, 2, 64, 0, 64, 128, 2e-3, 0.0},
    {"image-classify", "small", 4, 4, 64, 256, 64, 128, 1.5e-3, 0.1},
    {"image-classify", "base", 12, 12, 768, 0, 256, 16, 1e-4, 0.1},
    {"caption", "tiny", 2, 4, 64, 0, 32, 64, 2e-3, 0.0},
    {"caption", "small", 4, 4, 128, 0, 64, 64, 1e-3, 0.1},
    {"caption", "base", 12, 12, 768, 0, 128, 8, 1e-4, 0.1},
    {"regress", "tiny", 2, 2, 16, 32, 64, 16, 1e-3, 0.0},
    {"regress", "small", 2, 4, 64, 0, 128, 32, 1e-3, 0.0},
    {"regress", "base", 4, 8, 256, 0, 256, 32, 5e-4, 0.1},
};

}  // namespace

const std::vector<TrainPreset>& train_presets() {
  static const std::vector<TrainPreset> all(std::begin(kPresets), std::end(kPresets));
  return all;
}

void apply_train_preset(const std::string& name, TrainOptions& o) {
  for (const TrainPreset& preset : kPresets) {
    if (o.task == preset.task && name == preset.name) {
      o.layers = preset.layers, o.heads = preset.heads, o.width = preset.width, o.ff = preset.ff;
      o.context = preset.context, o.batch = preset.batch;
      o.lr = preset.lr, o.dropout = preset.dropout;
      if (o.task == "translate") {
        o.label_smoothing = 0.1;
        o.warmup = 400;
      }
      return;
    }
  }
  fail(ErrorKind::usage, "preset",
       "there is no '{}' for task '{}'; give a task and tiny, small or base", name, o.task);
}

}  // namespace heed
