#include "models/files.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "io/json.h"
#include "models/gguf/model.h"
#include "models/llama2c.h"

namespace heed {
namespace {
constexpr uint64_t kMaxConfig = uint64_t{16} << 20;

/// config.json, with what generation_config.json says next to it under that name.
std::string config_of(const std::filesystem::path& folder) {
  std::string text = read_file(folder / "config.json", kMaxConfig);
  const std::filesystem::path beside = folder / kGenerationFile;
  if (!std::filesystem::exists(beside)) {
    return text;
  }
  const Json config = Json::parse(text, (folder / "config.json").native());
  if (!config.is_object()) {
    return text;
  }
  nlohmann::json both = raw(config);
  both[kGenerationKey] = raw(Json::read(beside, {}, kMaxConfig));
  return both.dump(2);
}

}  // namespace

ModelFiles find_model_files(const std::filesystem::path& path) {
  check_data(std::filesystem::exists(path), path.native(), "there is no such file or folder");
  if (path.extension() == ".gguf") {
    return gguf::model_files(path);
  }
  if (path.extension() == ".bin") {
    return llama2c_files(path);
  }
  check_data(std::filesystem::is_directory(path), path.native(),
             "is not a model; give a folder, a .gguf file or llama2.c's .bin");
  std::filesystem::path folder = path;
  if (!std::filesystem::exists(folder / "config.json") &&
      std::filesystem::exists(folder / "model" / "config.json")) {
    folder /= "model";  // a run folder
  }
  check_data(std::filesystem::exists(folder / "config.json"), path.native(),
             "holds no config.json; give a Hugging Face folder or a run folder");
  ModelFiles files;
  files.config = config_of(folder);
  files.config_name = (folder / "config.json").native();
  files.weights_name = (folder / "model.safetensors").native();
  files.tensors = [folder] { return load_weights(folder); };
  return files;
}

}  // namespace heed
