#pragma once

#include <vector>

#include "serve/routes.h"

namespace heed::serve {

/// Generates a text for every encoder input, by the fields num_beams, length_penalty,
/// early_stopping, max_tokens and stream: translations and captions. `prompt_tokens` is what the
/// inputs count in the usage.
void generate_from_encoder(const CallPtr& call, std::vector<ModelInput> inputs,
                           int64_t prompt_tokens);

}  // namespace heed::serve
