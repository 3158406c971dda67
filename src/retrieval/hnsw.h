#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "retrieval/vectors.h"

namespace heed {

/// A hierarchical navigable small-world graph (Malkov and Yashunin 2016) over the vectors of a
/// table: finds nearly all of the best vectors and looks at a small part of them. Nodes are the
/// table's rows. Built in fixed batches, so that the graph does not depend on the number of
/// threads.
class HnswGraph {
 public:
  struct Options {
    int64_t neighbors = 16;      ///< links per node and level; twice as many on the lowest one
    int64_t construction = 100;  ///< candidates that are looked at while a node is added
    uint64_t seed = 1;
  };
  static constexpr int64_t kMostNodes = int64_t{1} << 31;
  static constexpr int kTopLevel = 12;

  HnswGraph() = default;
  /// `cancelled` (may be empty) is asked between batches; true leaves the graph empty.
  static HnswGraph build(const VectorTable& table, const Options& options,
                         const std::function<bool()>& cancelled = nullptr);

  /// The best `count` rows by product with `query`, best first; `breadth` candidates are kept while
  /// searching: more find more of the truly best.
  std::vector<VectorHit> search(const VectorTable& table, const float* query, int64_t count,
                                int64_t breadth) const;

  int64_t nodes() const { return static_cast<int64_t>(levels_.size()); }
  int64_t neighbors() const { return neighbors_; }

  /// Links of rows [begin, end) as numbers, for a file: 2 · neighbors of the lowest level per row
  /// (-1: none), and behind them `row, level, links of levels 1 … level` of rows that have some.
  std::vector<int32_t> pack(int64_t begin, int64_t end) const;
  /// The graph of packed blocks that together have `nodes` rows. Throws kind data where they do not
  /// fit; `file` is named.
  static HnswGraph unpack(std::span<const std::vector<int32_t>> blocks, int64_t block_rows,
                          int64_t nodes, int64_t neighbors, const std::string& file);

 private:
  struct Placement;  // where a new node goes
  class Visited;

  HnswGraph(int64_t nodes, int64_t neighbors);
  int64_t width(int level) const { return level == 0 ? 2 * neighbors_ : neighbors_; }
  std::span<int32_t> links(int64_t node, int level);
  std::span<const int32_t> links(int64_t node, int level) const;
  void set_level(int64_t node, int level);
  void enter(int64_t node);
  VectorHit descend(const VectorTable& table, const VectorQuery& query, int until) const;
  std::vector<VectorHit> search_level(const VectorTable& table, const VectorQuery& query,
                                      const std::vector<VectorHit>& from, int64_t breadth,
                                      int level, Visited& visited) const;
  Placement place(const VectorTable& table, int64_t node, int64_t construction,
                  Visited& visited) const;
  void add_batch(const VectorTable& table, int64_t begin, int64_t end, int64_t construction);
  void link_back(const VectorTable& table, int64_t node, int level,
                 const std::vector<int64_t>& sources);

  int64_t neighbors_ = 0;
  int64_t entry_ = -1;
  std::vector<uint8_t> levels_;
  std::vector<int64_t> upper_;       // of each node: its first link in upper_links_, or -1
  std::vector<int32_t> base_links_;  // [nodes, 2 · neighbors], -1 behind the last
  std::vector<int32_t> upper_links_;
};

}  // namespace heed
