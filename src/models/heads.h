#pragma once

#include "heed/models.h"
#include "io/json.h"
#include "models/common.h"

namespace heed {

/// Classes of a classifier: num_labels, or as many as id2label names, or `otherwise`.
int64_t label_count(const Json& config, int64_t otherwise = 2);

/// The layer "classifier", refused where it would not fit in memory.
Linear make_classifier(const Json& config, const Scope& root, int64_t width, int64_t labels,
                       const Init& init);

/// Loss of one label a sequence, logits [B, classes]: cross entropy, or the mean squared error
/// where there is one output.
Tensor sequence_loss(const Tensor& logits, const ModelInput& input);

/// The first row of each sequence (BERT's [CLS]), [B, width]. Refuses an empty sequence.
Tensor first_rows(const Tensor& rows, const Layout& layout);

/// Mean over the real positions of each sequence, [B, width].
Tensor mean_rows(const Tensor& rows, const Layout& layout);

/// Refuses inputs that the model does not read, naming them.
struct InputUse {
  bool token_types = false;
  bool decoder = false;
  bool pixels = false;
  bool features = false;
};
void check_inputs(const ModelInput& input, const InputUse& use, const std::string& model);

}  // namespace heed
