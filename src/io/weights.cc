#include "base/bus_guard.h"
#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"
#include "heed/io.h"
#include "io/json.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

/// True if `path`, with links resolved, is inside `folder`.
bool lies_below(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path relative =
      fs::relative(fs::weakly_canonical(path, error), fs::weakly_canonical(folder, error), error);
  return !error && *relative.begin() != "..";  // of two absolute paths, so never empty
}

/// Resolves a shard name from an untrusted index. The shard must be inside the folder, or in the
/// `blobs` folder of a Hugging Face download cache, where snapshots hold links to.
fs::path shard_path(const fs::path& folder, const std::string& name, std::string_view index) {
  const fs::path relative(name);
  bool plain = !name.empty() && relative.is_relative() && name.find('\0') == std::string::npos;
  for (const fs::path& part : relative) {
    plain = plain && part != "..";
  }
  check_data(plain, index, "weight_map: shard {} is not a plain name in this folder", quote(name));
  fs::path path = folder / relative;
  std::error_code error;
  check_data(fs::exists(path, error), index, "weight_map: shard {} is missing", quote(name));
  const fs::path snapshots = fs::weakly_canonical(folder, error).parent_path();
  const bool in_cache =
      snapshots.filename() == "snapshots" && lies_below(path, snapshots.parent_path() / "blobs");
  check_data(in_cache || lies_below(path, folder), index,
             "weight_map: shard {} is a link out of this folder", quote(name));
  return path;
}

/// Tensor names by shard, from an index.
std::map<std::string, std::vector<std::string>> read_index(const fs::path& path) {
  std::map<std::string, std::vector<std::string>> shards;
  Json::read(path).at("weight_map").for_each([&](const std::string& name, const Json& shard) {
    shards[shard.string()].push_back(name);
  });
  return shards;
}

TensorMap load_shards(const fs::path& folder, const fs::path& index) {
  TensorMap tensors;
  for (const auto& [shard, names] : read_index(index)) {
    const fs::path path = shard_path(folder, shard, index.native());
    TensorMap part = load_safetensors(path);
    for (const std::string& name : names) {
      check_data(part.contains(name), path.native(),
                 "tensor {}, which the index places here, is missing", quote(name));
    }
    for (auto& [name, tensor] : part) {
      check_data(tensors.emplace(name, std::move(tensor)).second, path.native(),
                 "tensor {} is in another shard as well", quote(name));
    }
  }
  return tensors;
}

}  // namespace

TensorMap load_weights(const fs::path& folder) {
  std::error_code error;
  check_data(fs::is_directory(folder, error), folder.native(), "is not a folder");
  const fs::path whole = folder / "model.safetensors";
  if (fs::exists(whole, error)) {
    return load_safetensors(whole);
  }
  const fs::path index = folder / "model.safetensors.index.json";
  check_data(fs::exists(index, error), folder.native(),
             "holds neither model.safetensors nor model.safetensors.index.json; weights in other "
             "formats have to be saved as safetensors first");
  return load_shards(folder, index);
}

void check_files_intact() { check_guarded_ranges(); }

}  // namespace heed
