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

/// An activation as [rows, the rest], f32 and contiguous.
Tensor as_rows(const Tensor& value, int64_t rows);

/// Watches one pass: keeps what was asked for, replaces what is to be changed, and can end the pass
/// early.
class Watcher final : public Observer {
 public:
  using Change = std::function<Tensor(const Tensor& value)>;
  /// Thrown out of the pass by `stop_after`.
  struct Stopped {};

  // What to keep.
  bool all_rows = false;                     ///< keep every hook's rows at `positions`
  std::map<std::string, int64_t> positions;  ///< by stack (as stack_of() names it): the row
  std::set<std::string> whole;               ///< hooks that are kept whole
  bool attentions = false;
  std::string kind;        ///< attention of this kind only; empty: all
  int64_t layer = -1;      ///< and of this layer only; -1: all
  std::string stop_after;  ///< hook after which nothing is needed

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
  std::vector<Seen> hooks;  ///< in the order of the pass
  std::map<std::string, Row> rows;
  std::map<std::string, Tensor> kept;
  std::vector<RecordedAttention> recorded;
  std::vector<AttentionPlace> places;

  bool wants(const std::string&) override { return true; }
  Tensor activation(const std::string& name, const Tensor& value) override;
  void attention(const std::string& name, const AttentionRecord& record) override;
  void adjust(const std::string& name, AttentionOptions& options) override;

 private:
  ActivationScope precision_{DType::f32};  // answers take sums apart, which bf16 would round
  AttentionPlace last_place_;
  AttentionRecord last_record_;
};

/// "encoder.", "decoder.", "text_model.", "vision_model." or "": the stack that a hook belongs to.
std::string stack_of(const std::string& hook);

}  // namespace heed::explore
