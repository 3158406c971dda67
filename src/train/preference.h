#pragma once

#include "heed/models.h"
#include "heed/runtime.h"

namespace heed {

/// The loss of direct preference optimisation (DPO, Rafailov et al. 2023): the mean over pairs of
/// -log sigmoid(beta · ((log p(chosen) − log p(rejected)) − (the same of the reference))). `pairs`
/// holds the chosen texts as input_ids, the rejected ones as decoder_input_ids, both with their
/// masks, and the lengths of their prompts as labels [B]. label_smoothing is the probability that a
/// pair is the wrong way round (conservative DPO).
HEED_API Tensor preference_loss(const Model& model, const Model& reference, const ModelInput& pairs,
                                double beta);

}  // namespace heed
