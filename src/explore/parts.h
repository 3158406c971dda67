#pragma once

#include "explore/trace.h"

namespace heed::explore {

/// A named contribution to a row of the residual stream.
struct Part {
  ScorePart about;
  Row row;
};

/// A norm as a linear map with its scale held: y = gain ⊙ (x - mean(x)) · rstd + bias.
struct HeldNorm {
  Row gain, bias;
  bool centered = true;  ///< false: RMSNorm, which subtracts no mean
  double mean = 0, rstd = 1;

  Row apply(const Row& x) const;  ///< without the bias
};

/// How a stack of blocks is built, as its hooks tell.
struct StackShape {
  std::string prefix;  ///< as stack_of() names it
  int64_t first = 0;   ///< number of its first block: a later stage goes on counting
  int64_t layers = 0;
  bool pre_norm = true;
  bool cross = false;
  std::string block(int64_t layer) const;
};
StackShape stack_shape(const Trace& trace, const std::string& prefix);
/// The stack whose rows an attention's queries are: "decoder." for cross-attention.
std::string query_stack(const Trace& trace, const std::string& kind);
/// The stack that the answer is read from.
std::string answer_stack(const Trace& trace);
/// Failure 409 where a position of an attention only fills up its windows: nothing flows into it.
void check_not_padding(const Trace& trace, const std::string& stack, int64_t position);

/// The norm before a hook, as it was at a position: `input` is what it read, `output` what it gave.
HeldNorm held_norm(Trace& trace, const std::string& norm_hook, const std::string& input_hook,
                   const std::string& zero_hook, const Row& input, const Row& output);

/// Rows of a stack that are read together, each with a weight: one row, or a mean over several. A
/// norm is the same linear map for all of them but for one factor per row, so that what is read can
/// be split as if it were one row.
struct ReadRows {
  int64_t position = -1;                         ///< where there is one row
  std::vector<std::map<std::string, Row>> rows;  ///< of each, every hook
  std::vector<double> weights;

  ReadRows(Trace& trace, const std::string& stack, int64_t at);
  ReadRows(Trace& trace, const std::string& stack, const std::vector<int64_t>& positions,
           std::vector<double> factors);
  bool has(const std::string& hook) const;  ///< at all of them
  /// The weighted sum of a hook's rows; Failure 409 where the model does not report it.
  Row sum(const std::string& hook) const;
  double total() const;  ///< of the weights
};

/// What adds up to the residual stream that enters a layer (layer == layers: the last norm's
/// input) at a position. `until_cross`: up to the cross-attention of that layer.
std::vector<Part> residual_parts(Trace& trace, const StackShape& stack, int64_t layer,
                                 int64_t position, bool until_cross = false);
std::vector<Part> residual_parts(Trace& trace, const StackShape& stack, int64_t layer,
                                 ReadRows read, bool until_cross = false);
/// The same through the norm that a layer's attention reads by; where the model's norms come after
/// its parts, the residual stream itself.
std::vector<Part> attention_input_parts(Trace& trace, const StackShape& stack, int64_t layer,
                                        int64_t position, bool cross);
/// Every part through a norm whose scale is held; its bias, times `weight`, becomes a part called
/// `name`.
void through_norm(const HeldNorm& norm, const std::string& name, int64_t layer,
                  std::vector<Part>& parts, double weight = 1.0);

/// Each head's contribution to an attention's output at a position, and the output's bias last.
/// Empty where they do not add up to it (a norm follows).
std::vector<Row> head_outputs(Trace& trace, const StackShape& stack, int64_t layer,
                              int64_t position, bool cross);

/// Failure 409 where an attention's scores are no products of queries and keys (Performer), or its
/// queries no tokens (Nystromformer's landmarks), or where the query is a global token
/// (Longformer).
void check_splittable(const Trace& trace, const RecordedAttention& attention, int64_t query = -1);
ScoreExplanation explain(Trace& trace, const std::string& kind, int64_t layer, int64_t head,
                         int64_t query, int64_t key);

struct Attribution {
  double logit = 0;
  std::vector<std::pair<ScorePart, double>> parts;
  double remainder = 0;
  bool integrated = false;  ///< the head is not linear: by integrated gradients
};
Attribution attribute(Trace& trace, int64_t position, int64_t token,
                      std::optional<int64_t> against);

double dot(const Row& a, const Row& b);
double norm_of(const Row& a);
Row minus(const Row& a, const Row& b);
Row times(Row a, double factor);
void add_to(Row& a, const Row& b, double factor = 1.0);
Row sum_of(const std::vector<Part>& parts);
/// A row by its hook; Failure 409 where the model does not report it.
const Row& need_row(const std::map<std::string, Row>& rows, std::string_view name);

}  // namespace heed::explore
