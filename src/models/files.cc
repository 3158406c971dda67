#include "models/files.h"

#include "base/check.h"
#include "base/file.h"
#include "heed/io.h"
#include "models/adapter.h"
#include "models/gguf/model.h"
#include "models/llama2c.h"
#include "models/task_heads.h"

namespace heed {
namespace {
constexpr uint64_t kMaxConfig = uint64_t{16} << 20;

/// config.json, with what generation_config.json says beside it under that name.
Json config_of(const std::filesystem::path& folder) {
  Json config = Json::read(folder / "config.json", {}, kMaxConfig);
  const std::filesystem::path beside = folder / kGenerationFile;
  if (!std::filesystem::exists(beside) || !config.is_object()) {
    return config;
  }
  return JsonBuilder(config)
      .set(kGenerationKey, Json::read(beside, {}, kMaxConfig))
      .build(config.file());
}

ModelFiles find_base_files(const std::filesystem::path& path) {
  check_data(std::filesystem::exists(path), path.native(), "there is no such file or folder");
  if (path.extension() == ".gguf") {
    return gguf::model_files(path);
  }
  if (path.extension() == ".bin") {
    return llama2c_files(path);
  }
  check_data(std::filesystem::is_directory(path), path.native(),
             "is not a model; expected a folder, a .gguf file or llama2.c's .bin");
  std::filesystem::path folder = path;
  if (!std::filesystem::exists(folder / "config.json") &&
      std::filesystem::exists(folder / "model" / "config.json")) {
    folder /= "model";  // a run folder
  }
  check_data(std::filesystem::exists(folder / "config.json"), path.native(),
             "holds no config.json; give a Hugging Face folder or a run folder");
  return {.config = config_of(folder),
          .weights_name = (folder / "model.safetensors").native(),
          .tensors = [folder] { return load_weights(folder); }};
}

/// The base's configuration with the head that an adapter's folder describes. What is wrong with
/// the head is said here: the result goes by the name of the base's file.
Json with_head(const Json& base, const std::filesystem::path& config_file) {
  const Json own = Json::read(config_file, {}, kMaxConfig);
  architecture(own);
  label_count(own);
  problem_type_of(own);
  JsonBuilder config(base);
  for (const char* key : {"architectures", "id2label", "label2id", "num_labels", "problem_type"}) {
    if (own.has(key)) {
      config.set(key, own.at(key));
    }
  }
  return config.build(base.file());
}

}  // namespace

std::optional<Json> generation_rules(const Json& config) {
  const auto rules = config.find(kGenerationKey);
  if (!rules || !rules->is_object()) {
    return std::nullopt;
  }
  const auto beside = std::filesystem::path(config.file()).parent_path() / kGenerationFile;
  return Json::parse(rules->dump(), beside.native());
}

ModelFiles find_model_files(const std::filesystem::path& path,
                            const std::filesystem::path& wanted) {
  const std::filesystem::path base = base_model_path(path);
  const bool own = base != path;
  check_data(!own || wanted.empty(), path.native(),
             "is an adapter itself; open its model {} with the adapter {}", base.native(),
             wanted.native());
  ModelFiles files = find_base_files(base);
  files.adapter = own ? adapter_folder(path) : wanted;
  if (!files.adapter.empty()) {
    files.adapter = adapter_folder(files.adapter);
    check_data(is_adapter(files.adapter), files.adapter.native(),
               "holds no adapter: there is no {}", kAdapterConfig);
    if (std::filesystem::exists(files.adapter / "config.json")) {
      files.config = with_head(files.config, files.adapter / "config.json");
    }
  }
  return files;
}

}  // namespace heed
