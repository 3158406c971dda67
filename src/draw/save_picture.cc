#include "base/check.h"
#include "base/file.h"
#include "heed/picture.h"

namespace heed {
namespace {

template <class Picture>
void save(const std::filesystem::path& path, const Picture& picture) {
  const std::string ending = path.extension().string();
  check(ending == ".svg" || ending == ".png", "save_picture",
        "{}: pictures are written as .svg or .png", path.string());
  write_file_atomically(path, ending == ".svg" ? to_svg(picture) : to_png(picture));
}

}  // namespace

void save_picture(const std::filesystem::path& path, const Heatmap& map) { save(path, map); }

void save_picture(const std::filesystem::path& path, const PatchPicture& picture) {
  save(path, picture);
}

void save_picture(const std::filesystem::path& path, const LinePlot& plot) { save(path, plot); }

}  // namespace heed
