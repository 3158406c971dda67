#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/attention.h"
#include "heed/tensor.h"
#include "heed/text.h"

// Looking at attention weights: whether they are what they must be, what they attend to, and what
// attention costs.

namespace heed {

/// What checking weights [.., Tq, Tk] found.
struct WeightsReport {
  int64_t rows = 0;
  int64_t empty_rows = 0;      ///< rows of zeros: queries that may see no key
  double worst_sum_error = 0;  ///< largest |Σ row - 1| of the other rows
  double smallest = 0;
  double largest = 0;
  int64_t not_finite = 0;             ///< NaN and infinities
  double future = 0;                  ///< sum of the weights on later keys; 0 where not causal
  std::vector<std::string> problems;  ///< what is wrong, in words; empty: all is well
  bool ok() const { return problems.empty(); }
};
/// Rows sum to 1, all lies in 0 … 1, nothing is NaN or infinite; where `causal`, query i has no
/// weight on keys after i + offset.
HEED_API WeightsReport validate_weights(const Tensor& weights, bool causal = false,
                                        int64_t offset = 0);

/// How one head attends, each a mean over its rows, 0 … 1 but for the last two. Query i stands at
/// key i + offset.
struct AttentionPatterns {
  double diagonal = 0;       ///< weight on the own position
  double previous = 0;       ///< on the position before it
  double first = 0;          ///< on the first key
  double local = 0;          ///< within `reach` of the own position
  double uniform = 0;        ///< 1: spread evenly over the visible keys; 0: all on one
  double entropy = 0;        ///< in bits
  double mean_distance = 0;  ///< Σ weight · |query - key|
};
/// Of one head's weights [Tq, Tk].
HEED_API AttentionPatterns attention_patterns(const Tensor& weights, int64_t offset = 0,
                                              int64_t reach = 3);
/// The pattern that stands out: "diagonal", "previous token", "first token", "local", "uniform" or
/// "mixed".
HEED_API std::string name_of_pattern(const AttentionPatterns& patterns);

struct Attended {
  int64_t key = 0;
  double weight = 0;
};
/// The `count` keys with the largest weights of each row of [Tq, Tk], largest first; of equals the
/// first.
HEED_API std::vector<std::vector<Attended>> top_attended(const Tensor& weights, int64_t count);

/// Bytes of one head's matrix of weights: length² elements. 1,024 tokens in f32: 4.0 MB.
HEED_API double attention_matrix_bytes(int64_t length, DType type, int64_t heads = 1,
                                       int64_t batch = 1);

/// Multiplications and additions of one layer over a sequence, and the longest way of steps that
/// must come one after another, and between two positions.
struct LayerCost {
  double operations = 0;
  double sequential_steps = 0;
  double path_length = 0;
};
HEED_API LayerCost recurrent_cost(int64_t length, int64_t width);
HEED_API LayerCost convolution_cost(int64_t length, int64_t width, int64_t kernel);
HEED_API LayerCost self_attention_cost(int64_t length, int64_t width);

// Recording a model while it runs.

/// Which attention of a model: "encoder.blocks.2.attn" is layer 2 of kind encoder.
struct AttentionPlace {
  std::string name;
  std::string kind;   ///< "self", "encoder", "decoder", "cross" or "readout"
  int64_t layer = 0;  ///< of its kind
};
HEED_API AttentionPlace parse_place(const std::string& name);

/// A head whose output is multiplied by `scale`; 0 ablates it.
struct HeadScale {
  int64_t layer = 0;
  int64_t head = 0;
  double scale = 0.0;
  std::string kind;  ///< empty: every kind
};

struct RecorderOptions {
  /// Hook names to keep, such as "blocks.*.hook_resid_post"; "*" stands for any characters.
  std::vector<std::string> activations;
  bool attention = true;  ///< keep what the weights are computed from
  std::string kind;       ///< keep attention of this kind only; empty: all
  int64_t layer = -1;     ///< keep attention of this layer only; -1: all
  std::vector<HeadScale> heads;
  bool no_causal = false;  ///< queries see later keys too
  bool gradients = false;  ///< keep the gradient of each head's output; see gradient_map()
};

/// One attention of the recorded pass. Weights are computed on demand and equal
/// those that the pass used.
struct HEED_API RecordedAttention {
  AttentionPlace place;
  AttentionRecord record;
  Tensor probe;  ///< with `gradients`: collects the gradient of the heads' outputs

  int64_t batch() const { return record.q.size(0); }
  int64_t heads() const { return record.q.size(1); }
  int64_t queries() const { return record.q.size(2); }
  int64_t keys() const { return record.k.size(2); }
  /// Position of query 0 among the keys.
  int64_t offset() const;

  /// Weights of a head as at most [max_rows, max_columns], each cell the largest it covers. Reads a
  /// few rows at a time: the whole matrix never exists.
  Tensor pooled(int64_t sequence, int64_t head, int64_t max_rows, int64_t max_columns) const;
  /// The `count` strongest keys of every query: i64 and f32 [queries, count], largest first.
  std::pair<Tensor, Tensor> strongest(int64_t sequence, int64_t head, int64_t count) const;
  /// Every step of the formula for one head, each [1, 1, Tq, Tk] but the output.
  AttentionSteps steps(int64_t sequence, int64_t head) const;
  AttentionPatterns patterns(int64_t sequence, int64_t head) const;
  /// The norm of each head's output as a fraction of the sum over all heads.
  std::vector<double> output_shares(int64_t sequence) const;
  /// Weights times the norm of each key's value: what is read, not only where [Tq, Tk].
  Tensor value_weighted(int64_t sequence, int64_t head) const;
  /// Weights times the gradient of the result with respect to them [Tq, Tk]: what a small change of
  /// a weight would change. Needs RecorderOptions::gradients and a backward() in between.
  Tensor gradient_map(int64_t sequence, int64_t head) const;
};

/// Records what a model computes while it is in scope:
///   Recorder recorder({.activations = {"*.hook_resid_post"}});
///   model->forward(input);
///   Tensor weights = recorder.at("self", 0).record.weights(0, 3);
///
/// Thread safety: it records what its own thread computes. Many threads may share a model, each
/// with a Recorder of its own; one Recorder is for one thread.
class HEED_API Recorder final : public Observer {
 public:
  explicit Recorder(RecorderOptions options = {});

  const std::vector<RecordedAttention>& attentions() const { return attentions_; }
  /// The first of that kind and layer; an error that lists what there is otherwise.
  const RecordedAttention& at(const std::string& kind, int64_t layer) const;
  /// By hook name; only what RecorderOptions::activations asked for.
  const std::map<std::string, Tensor>& activations() const { return activations_; }
  /// Those of RecorderOptions::heads that no attention so far had, or lets be scaled.
  std::vector<HeadScale> unscaled() const;

  bool wants(const std::string& name) override;
  Tensor activation(const std::string& name, const Tensor& value) override;
  void attention(const std::string& name, const AttentionRecord& record) override;
  void adjust(const std::string& name, AttentionOptions& options) override;

 private:
  bool keeps(const AttentionPlace& place) const;

  RecorderOptions options_;
  std::vector<RecordedAttention> attentions_;
  std::map<std::string, Tensor> activations_;
  std::string last_place_;  // of the attention before its hook_z
  int64_t last_heads_ = 0;
  std::set<size_t> scaled_;  // of options_.heads
};

/// One line of the head table.
struct HeadSummary {
  AttentionPlace place;
  int64_t head = 0;
  AttentionPatterns patterns;
  std::string pattern;      ///< the one that stands out
  double output_share = 0;  ///< of its layer's heads
};
HEED_API std::vector<HeadSummary> head_table(const Recorder& recorder, int64_t sequence = 0);

/// How often a head's largest weight from the query lies on the target.
struct HeadPointing {
  AttentionPlace place;
  int64_t head = 0;
  double accuracy = 0;     ///< fraction of the examples
  double mean_weight = 0;  ///< on the target
};
/// Which heads point where they should, over many examples.
class HEED_API PointingScore {
 public:
  /// Adds a recorded example: the position of the query and the position it should point to.
  void add(const Recorder& recorder, int64_t query, int64_t target, int64_t sequence = 0);
  int64_t examples() const { return examples_; }
  /// Best first.
  std::vector<HeadPointing> ranked() const;

 private:
  int64_t examples_ = 0;
  std::vector<HeadPointing> heads_;
};

/// Attention rollout [Tq, Tk] over all recorded layers of a kind: the product of the layers' mean
/// weights, each mixed half and half with the residual stream.
HEED_API Tensor attention_rollout(const Recorder& recorder, const std::string& kind,
                                  int64_t sequence = 0);

/// What to call each token in a picture: its piece of the text without spaces around it, "##" of a
/// word's later pieces kept. Where a token is only some bytes of a character, the character and
/// which piece of it: "학(1/3)".
HEED_API std::vector<std::string> token_labels(const Encoding& encoding, std::string_view text);
/// The same for tokens that come from no text.
HEED_API std::vector<std::string> token_labels(const std::vector<TokenId>& ids,
                                               const Tokenizer& tokenizer);

}  // namespace heed
