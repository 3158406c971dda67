#pragma once

#include "heed/models.h"
#include "models/layer_stack.h"

namespace heed {

/// One of heed's own encoders: the simple Transformer of the tutorials, or a Performer.
struct SimpleEncoderFamily {
  const char* model_type;
  const char* head = "none";  ///< where the configuration does not say
  bool performer = false;     ///< FAVOR+ in place of softmax attention
};
std::unique_ptr<Model> make_simple_encoder(const Json& config, const Scope& root,
                                           const SimpleEncoderFamily& family);
/// The description; `tasks` of `heed train` make one afresh.
ModelSpec simple_encoder_spec(const SimpleEncoderFamily& family,
                              const std::vector<std::string>& tasks);

}  // namespace heed
