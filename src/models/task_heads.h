#pragma once

#include "heed/io.h"
#include "heed/models.h"
#include "models/common.h"

namespace heed {

[[noreturn]] void refuse_architecture(const Json& config, const std::string& name,
                                      const std::vector<std::string>& known);

/// Classes of a classifier: num_labels, or as many as id2label names, or `otherwise`.
int64_t label_count(const Json& config, int64_t otherwise = 2);

/// The layer "classifier", refused where it would not fit in memory.
Linear make_classifier(const Json& config, const Scope& root, int64_t width, int64_t labels,
                       const Init& init);

/// What a sequence's outputs stand for, config.json's problem_type: a number each, a class each of
/// which one is right, a class each that is right or not. Unnamed: one output is a number, labels
/// that are no integers are multi-label.
enum class ProblemType { unspecified, regression, single_label, multi_label };
ProblemType problem_type_of(const Json& config);

/// Mean binary cross entropy of logits against labels between 0 and 1 of the same shape.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels);

/// Logits [B, outputs] and loss from one row per sequence: squared error, cross entropy, or the
/// binary one of every class.
ModelOutput sequence_results(const Tensor& pooled, const Linear& classifier,
                             const ModelInput& input,
                             ProblemType problem = ProblemType::unspecified);

/// Where an answer begins and ends, from two logits per row [N, 2], and the mean of both losses
/// where start_positions and end_positions are given.
ModelOutput answer_results(const Tensor& logits, const TokenRows& tokens, const ModelInput& input);

/// The layer over words: the embeddings' own weights, marked as used where the file stores them
/// twice, or weights of its own.
Linear lm_head(const Json& config, const Scope& scope, const Embedding& words, const Tensor& bias,
               const Init& init);

/// The head that config.json's `architectures` names; nothing where it is null.
template <class Head>
std::optional<Head> named_head(const Json& config,
                               const std::vector<std::pair<std::string, Head>>& known) {
  const std::string name = architecture(config);
  std::vector<std::string> names;
  for (const auto& [each, head] : known) {
    if (name == each) {
      return head;
    }
    names.push_back(each);
  }
  if (!name.empty()) {
    refuse_architecture(config, name, names);
  }
  return std::nullopt;
}

/// The first row of each sequence (BERT's [CLS]), [B, width]. Refuses an empty sequence.
Tensor first_rows(const Tensor& rows, const Layout& layout);

/// The row of each sequence's last token that is not padding, by which a decoder classifies it,
/// [B, width]. Refuses a padded batch where `padding` is not known.
Tensor last_rows(const Tensor& rows, const TokenRows& tokens, const ModelInput& input,
                 std::optional<int64_t> padding);

/// Mean over the real positions of each sequence, [B, width].
Tensor mean_rows(const Tensor& rows, const Layout& layout);

/// Refuses inputs that the model does not read, naming them.
struct InputUse {
  bool token_types = false;
  bool decoder = false;
  bool pixels = false;
  bool features = false;
  bool global_mask = false;
  bool answers = false;
};
void check_inputs(const ModelInput& input, const InputUse& use, const std::string& model);
/// Checks the inputs of a model with such a vocabulary and context, and gives its tokens.
TokenRows read_tokens(const ModelInput& input, const InputUse& use, const std::string& model,
                      int64_t vocabulary, int64_t context, bool skip_padding);

}  // namespace heed
