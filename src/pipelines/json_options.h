#pragma once

#include "heed/pipelines.h"

namespace heed {

// Options of a call from a JSON object with Hugging Face's names. An unknown name is an error that
// lists the known ones; so is a value of the wrong type or range. `run` is taken over, with the
// object's batch_size where it has one.
GenerationOptions generation_options(const Json& json, const RunOptions& run);
TranslationOptions translation_options(const Json& json, const RunOptions& run);
ClassificationOptions classification_options(const Json& json, const RunOptions& run);
TokenClassificationOptions token_classification_options(const Json& json, const RunOptions& run);
FillMaskOptions fill_mask_options(const Json& json, const RunOptions& run);
FeatureOptions feature_options(const Json& json, const RunOptions& run);
ZeroShotOptions zero_shot_options(const Json& json, const RunOptions& run);
CaptionOptions caption_options(const Json& json, const RunOptions& run);
SpeechOptions speech_options(const Json& json);

}  // namespace heed
