#pragma once

#include <memory>
#include <string>

#include "heed/models.h"

namespace heed {

/// In front of every name in PEFT's files.
inline constexpr const char* kAdapterPrefix = "base_model.model.";
inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";

/// A low-rank adapter while a model is built with it.
class Adapter : public ScopeAdapter {
 public:
  /// Refuses an adapter that does not fit the model; `file` holds the model's weights.
  virtual void finish(const Model& model, const std::string& file) const = 0;
};

/// The adapter that the options ask for; null where they ask for none.
std::shared_ptr<Adapter> make_adapter(const LoadOptions& options);

/// Whether a folder holds an adapter in PEFT's format.
bool is_adapter(const std::filesystem::path& folder);
/// The folder of an adapter, or the model/ inside a run folder that holds one.
std::filesystem::path adapter_folder(const std::filesystem::path& path);

}  // namespace heed
