#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/folder_entries.h"
#include "base/language.h"
#include "base/utf8.h"
#include "data/table.h"
#include "heed/data.h"
#include "heed/io.h"

namespace heed {
namespace {

using std::filesystem::path;

bool is_image(const path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg" ||
         extension == ".pgm" || extension == ".ppm";
}

std::vector<path> sorted_entries(const path& folder) {
  std::vector<path> entries = folder_entries(folder);
  std::erase_if(entries, [](const path& e) { return e.filename().native().starts_with('.'); });
  return entries;
}

/// The name of the labels beside "train-images-idx3-ubyte.gz".
path labels_beside(const path& images) {
  std::string name = images.filename().string();
  const auto replace = [&](std::string_view from, std::string_view to) {
    const size_t place = name.find(from);
    check_data(place != std::string::npos, images.string(),
               "its name has no \"{}\", so the file of its labels is not known", from);
    name.replace(place, from.size(), to);
  };
  replace("images", "labels");
  replace("idx3", "idx1");
  return images.parent_path() / name;
}

ImageData load_idx_classes(const path& images) {
  const path labels = labels_beside(images);
  ImageData data;
  data.pixels = load_idx(images);
  const Tensor classes = load_idx(labels);
  check_data(data.pixels.rank() == 3 && data.pixels.dtype() == DType::u8, images.string(),
             "has shape {}; u8 [N, H, W] is wanted", data.pixels.shape());
  check_data(
      classes.rank() == 1 && classes.dtype() == DType::u8 && classes.size(0) == data.pixels.size(0),
      labels.string(), "has shape {}; u8 [{}] is wanted", classes.shape(), data.pixels.size(0));
  check_data(classes.numel() > 0, images.string(), "has no images");
  Shape shape = data.pixels.shape();
  shape.insert(1, 1);
  data.pixels = data.pixels.alias(shape, contiguous_strides(shape), 0);
  const std::vector<uint8_t> values = classes.to_vector<uint8_t>();
  data.label.assign(values.begin(), values.end());
  for (int name = 0; name <= *std::max_element(values.begin(), values.end()); ++name) {
    data.labels.push_back(std::to_string(name));
  }
  return data;
}

ImageData load_folder_of_classes(const path& folder) {
  ImageData data;
  for (const path& entry : sorted_entries(folder)) {
    if (!std::filesystem::is_directory(entry)) {
      continue;
    }
    const size_t before = data.files.size();
    for (const path& file : sorted_entries(entry)) {
      if (is_image(file)) {
        data.files.push_back(file);
        data.label.push_back(static_cast<int32_t>(data.labels.size()));
      }
    }
    if (data.files.size() > before) {
      data.labels.push_back(entry.filename().string());
    }
  }
  check_data(!data.files.empty(), folder.string(),
             "has no images; a folder for every class with .png, .jpg, .pgm or .ppm files, or "
             "MNIST's IDX files, are wanted");
  return data;
}

void add_caption(ImageData& data, const path& folder, const std::string& file, std::string caption,
                 const std::string& where) {
  check_data(std::filesystem::is_regular_file(folder / file), where, "there is no image {}",
             quote((folder / file).string()));
  data.files.push_back(folder / file);
  data.captions.push_back(std::move(caption));
}

void add_rows(ImageData& data, const path& file) {
  const auto table = open_table(file, {"image", "caption"});
  std::vector<std::string> row;
  while (table->next(row)) {
    add_caption(data, file.parent_path(), row[0], row[1], table->where());
  }
}

/// COCO's annotations: images by id, and captions that name an id.
void add_coco(ImageData& data, const path& folder, const Json& document) {
  std::map<int64_t, std::string> names;
  for (const Json& image : document.at("images").elements()) {
    names[image.at("id").integer()] = image.string("file_name");
  }
  for (const Json& annotation : document.at("annotations").elements()) {
    const Json id = annotation.at("image_id");
    const auto found = names.find(id.integer());
    if (found == names.end()) {
      id.refuse(say("names no image"));
    }
    add_caption(data, folder, found->second, annotation.string("caption"), document.file());
  }
}

/// {"file": "caption" or ["caption", …]}, [{"image": …, "caption": …}, …], or COCO's form.
void add_json(ImageData& data, const path& file) {
  const Json document = Json::read(file);
  const path folder = file.parent_path();
  if (document.is_array()) {
    for (const Json& entry : document.elements()) {
      add_caption(data, folder, entry.string("image"), entry.string("caption"), document.file());
    }
  } else if (document.has("annotations")) {
    add_coco(data, folder, document);
  } else {
    document.for_each([&](const std::string& name, const Json& value) {
      for (const std::string& caption :
           value.is_array() ? value.strings() : std::vector<std::string>{value.string()}) {
        add_caption(data, folder, name, caption, document.file());
      }
    });
  }
}

std::map<std::string, MakeImages>& registered() {
  static std::map<std::string, MakeImages> all;
  return all;
}

}  // namespace

ImageData load_image_classes(const std::string& data, std::string_view split) {
  const path place = data;
  check_data(std::filesystem::exists(place), data, "there is no such file or folder");
  if (!std::filesystem::is_directory(place)) {
    return load_idx_classes(place);
  }
  for (const char* ending : {"", ".gz"}) {
    const path idx = place / fmt::format("{}-images-idx3-ubyte{}", split, ending);
    if (std::filesystem::exists(idx)) {
      return load_idx_classes(idx);
    }
  }
  const path inner = place / split;
  return load_folder_of_classes(std::filesystem::is_directory(inner) ? inner : place);
}

void register_captioned_images(const std::string& name, MakeImages make) {
  registered()[name] = std::move(make);
}

bool is_registered_dataset(const std::string& data) {
  return registered().contains(data.substr(0, data.find(':'))) && !std::filesystem::exists(data);
}

ImageData load_captioned_images(const std::string& data, bool held_out) {
  if (is_registered_dataset(data)) {
    const size_t colon = data.find(':');
    return registered()[data.substr(0, colon)](
        colon == std::string::npos ? std::string() : data.substr(colon + 1), held_out);
  }
  path file = data;
  check_data(std::filesystem::exists(file), data, "there is no such file or folder");
  if (std::filesystem::is_directory(file)) {
    for (const char* name : {"captions.tsv", "captions.csv", "captions.jsonl", "captions.json"}) {
      if (std::filesystem::exists(path(data) / name)) {
        file = path(data) / name;
        break;
      }
    }
    check_data(file != path(data), data, "has no captions.tsv, .csv, .jsonl or .json");
  }
  ImageData images;
  file.extension() == ".json" ? add_json(images, file) : add_rows(images, file);
  check_data(!images.files.empty(), file.string(), "has no captions");
  return images;
}

}  // namespace heed
