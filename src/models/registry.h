#pragma once

#include <memory>

#include "heed/models.h"

namespace heed {

#define HEED_MODEL(name) ModelSpec name##_spec();
#include "models/families.h"
#undef HEED_MODEL

/// Makes the model that config.json's model_type names, at any level of the scope: the parts of a
/// vision-encoder-decoder are made like this too. Does not call scope.finish().
std::unique_ptr<Model> make_model(const Json& config, const Scope& scope);

/// The known model_type that a configuration heed does not know is nearest to: by its name, or
/// else by what its classes do.
std::string nearest_model_type(const Json& config);

/// The class that a model's parameters show; null where its description has none that fits.
const ModelHead* head_of(const Model& model);

/// The Hugging Face class of a model, for config.json's `architectures`; empty where it has none.
std::string hugging_face_architecture(const Model& model);

}  // namespace heed
