#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "heed/inspect.h"
#include "heed/ops.h"

namespace heed::explore {

/// A row of numbers of the residual stream or of a hook.
using Row = std::vector<double>;

/// Rows that one sequence has at a hook. Values are [rows, …]; whole batches [1, rows, …];
/// queries, keys and values of heads [rows, heads, …] or [1, heads, rows, …].
int64_t hook_rows(const std::string& name, const Shape& shape);
/// An activation as [rows, the rest], f32 and contiguous.
Tensor as_rows(const Tensor& value, int64_t rows);
/// Its inverse: such rows in the shape and type of `value`.
Tensor from_rows(const Tensor& rows, const Tensor& value);

/// Bytes that a recorded attention holds.
int64_t record_bytes(const AttentionRecord& record);

/// The rows of a matrix, one by one.
std::vector<Row> rows_of_matrix(const Tensor& matrix);

/// The places of a stack's rows in an image, where the attention may have more of them: a grid that
/// windows do not divide is filled up to the right and below.
struct RowGrid {
  int64_t rows = 0, columns = 0;          ///< of the residual stream
  int64_t all_rows = 0, all_columns = 0;  ///< of the attention

  int64_t count() const { return rows * columns; }
  int64_t all() const { return all_rows * all_columns; }
  bool is_padded() const { return all() != count(); }
  /// The residual stream's row at a position of the attention; -1 where that only fills up.
  int64_t row_at(int64_t position) const;
  /// The attention's position of a row, where rows of several copies follow each other.
  int64_t position_of(int64_t row) const;
};

/// Watches one pass: keeps what was asked for, replaces what is to be changed, and can end the pass
/// early.
class Watcher final : public Observer {
 public:
  using Change = std::function<Tensor(const Tensor& value)>;
  /// Thrown out of the pass by `stop_after`.
  struct Stopped {};

  // What to keep.
  bool all_rows = false;                                  ///< keep every hook's rows at `positions`
  std::map<std::string, std::vector<int64_t>> positions;  ///< by stack (stack_of()): the rows
  std::map<std::string, RowGrid> grids;  ///< by stack: where positions are an attention's
  std::set<std::string> whole;           ///< hooks that are kept whole
  bool attentions = false;
  std::string kind;                ///< attention of this kind only; empty: all
  int64_t layer = -1;              ///< and of this layer only; -1: all
  int64_t most_bytes = INT64_MAX;  ///< of recorded attentions; beyond it none is kept
  std::string stop_after;          ///< hook after which nothing is needed

  // What to change.
  std::multimap<std::string, Change> changes;  ///< by hook
  std::function<void(const AttentionPlace&, AttentionOptions&)> adjust_attention;
  /// Changes the heads' outputs rows [N, heads * value_dim], knowing the attention they came from.
  std::function<Tensor(const AttentionPlace&, const AttentionRecord&, const Tensor&)> change_heads;

  // What was seen.
  struct Seen {
    std::string name;
    Shape shape;
  };
  std::vector<Seen> hooks;                       ///< in the order of the pass
  std::vector<std::map<std::string, Row>> rows;  ///< at each of `positions`
  std::map<std::string, Tensor> kept;
  std::vector<RecordedAttention> recorded;
  /// Every attention that was asked for, kept or not.
  struct Met {
    AttentionPlace place;
    int64_t heads = 0, queries = 0, keys = 0, offset = 0;
    bool causal = false;
  };
  std::vector<Met> met;
  bool too_many = false;  ///< most_bytes did not hold them
  std::vector<AttentionPlace> places;

  /// Everything but weights over all keys, which windows make costly, where nobody reads them.
  bool wants(const std::string& name) override {
    return attentions || change_heads || adjust_attention || !name.ends_with("_map");
  }
  Tensor activation(const std::string& name, const Tensor& value) override;
  void attention(const std::string& name, const AttentionRecord& record) override;
  void adjust(const std::string& name, AttentionOptions& options) override;

 private:
  void keep_rows(const std::string& name, const Tensor& value, const std::string& stack,
                 const std::vector<int64_t>& wanted);
  /// As parse_place(), but the layers of a model's stages are counted from 0 in each: "stage1".
  AttentionPlace place_of(const std::string& name);

  std::map<std::string, int64_t> first_layers_;  // of the stages, by their stack
  ActivationScope precision_{DType::f32};        // answers take sums apart, which bf16 would round
  int64_t bytes_ = 0;                            // of `recorded`
  AttentionPlace last_place_;
  AttentionRecord last_record_;
};

/// "encoder.", "decoder.", "text_model.", "vision_model.", "stages.0." … or "": the stack that a
/// hook belongs to.
std::string stack_of(const std::string& hook);
/// The kind of a stack's own attentions: "self", "encoder", "decoder", "text", "vision", "stage0" …
std::string kind_of_stack(const std::string& prefix);

}  // namespace heed::explore
