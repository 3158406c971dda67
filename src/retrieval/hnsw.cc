#include "retrieval/hnsw.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "base/check.h"
#include "base/parallel.h"
#include "base/per_thread.h"
#include "heed/runtime.h"

namespace heed {
namespace {

/// Here `VectorHit::chunk` is a row of the table.
struct WorseFirst {
  bool operator()(const VectorHit& a, const VectorHit& b) const { return better(a, b); }
};
struct BetterFirst {
  bool operator()(const VectorHit& a, const VectorHit& b) const { return better(b, a); }
};

int random_level(uint64_t seed, int64_t node, int64_t neighbors) {
  const uint32_t word = philox(seed, 0, static_cast<uint64_t>(node))[0];
  const double uniform = (static_cast<double>(word) + 1.0) / 4294967296.0;
  const double level = -std::log(uniform) / std::log(static_cast<double>(neighbors));
  return std::min(static_cast<int>(level), HnswGraph::kTopLevel);
}

/// Of candidates, best first: those that are closer to the node than to any that was taken before
/// and no copies of one, so that links lead in different directions; then the best of the others,
/// so that vectors that are nearly the same stay within reach.
std::vector<int64_t> select_neighbors(const VectorTable& table,
                                      const std::vector<VectorHit>& candidates, int64_t most) {
  std::vector<int64_t> taken, others;
  for (const VectorHit& candidate : candidates) {
    if (static_cast<int64_t>(taken.size()) >= most) {
      break;
    }
    const VectorQuery query = table.row_query(candidate.chunk);
    const float itself = table.score(candidate.chunk, query);
    const bool apart = std::none_of(taken.begin(), taken.end(), [&](int64_t other) {
      const float between = table.score(other, query);
      return between > candidate.score || between >= itself;
    });
    (apart ? taken : others).push_back(candidate.chunk);
  }
  const auto room = static_cast<size_t>(most) - taken.size();
  taken.insert(taken.end(), others.begin(),
               others.begin() + static_cast<int64_t>(std::min(room, others.size())));
  return taken;
}

}  // namespace

/// Marks of nodes that a search has seen; emptied by counting on.
class HnswGraph::Visited {
 public:
  explicit Visited(int64_t nodes) : stamps_(static_cast<size_t>(nodes), 0) {}
  void clear() { ++stamp_; }
  /// True the first time.
  bool mark(int64_t node) {
    uint32_t& stamp = stamps_[static_cast<size_t>(node)];
    const bool first = stamp != stamp_;
    stamp = stamp_;
    return first;
  }

 private:
  std::vector<uint32_t> stamps_;
  uint32_t stamp_ = 0;
};

struct HnswGraph::Placement {
  std::vector<std::vector<int64_t>> neighbors;  // by level
};

HnswGraph::HnswGraph(int64_t nodes, int64_t neighbors)
    : neighbors_(neighbors),
      levels_(static_cast<size_t>(nodes), 0),
      upper_(static_cast<size_t>(nodes), -1),
      base_links_(static_cast<size_t>(nodes * 2 * neighbors), -1) {}

std::span<const int32_t> HnswGraph::links(int64_t node, int level) const {
  if (level == 0) {
    return std::span(base_links_)
        .subspan(static_cast<size_t>(node * width(0)), static_cast<size_t>(width(0)));
  }
  const int64_t first = upper_[static_cast<size_t>(node)] + (level - 1) * neighbors_;
  return std::span(upper_links_)
      .subspan(static_cast<size_t>(first), static_cast<size_t>(neighbors_));
}

std::span<int32_t> HnswGraph::links(int64_t node, int level) {
  const std::span<const int32_t> fixed = std::as_const(*this).links(node, level);
  return {const_cast<int32_t*>(fixed.data()), fixed.size()};
}

void HnswGraph::set_level(int64_t node, int level) {
  levels_[static_cast<size_t>(node)] = static_cast<uint8_t>(level);
  if (level > 0) {
    upper_[static_cast<size_t>(node)] = static_cast<int64_t>(upper_links_.size());
    upper_links_.resize(upper_links_.size() + static_cast<size_t>(level * neighbors_), -1);
  }
}

/// The node begins searches where it is higher than the one that did.
void HnswGraph::enter(int64_t node) {
  if (entry_ < 0 || levels_[static_cast<size_t>(node)] > levels_[static_cast<size_t>(entry_)]) {
    entry_ = node;
  }
}

/// The best node that greedy steps reach on the levels above `until`.
VectorHit HnswGraph::descend(const VectorTable& table, const VectorQuery& query, int until) const {
  VectorHit best{entry_, table.score(entry_, query)};
  for (int level = levels_[static_cast<size_t>(entry_)]; level > until; --level) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const int32_t node : links(best.chunk, level)) {
        const VectorHit hit{node, node < 0 ? -INFINITY : table.score(node, query)};
        if (node >= 0 && better(hit, best)) {
          best = hit;
          moved = true;
        }
      }
    }
  }
  return best;
}

std::vector<VectorHit> HnswGraph::search_level(const VectorTable& table, const VectorQuery& query,
                                               const std::vector<VectorHit>& from, int64_t breadth,
                                               int level, Visited& visited) const {
  std::priority_queue<VectorHit, std::vector<VectorHit>, BetterFirst> open;
  std::priority_queue<VectorHit, std::vector<VectorHit>, WorseFirst> found;
  visited.clear();
  for (const VectorHit& hit : from) {
    if (visited.mark(hit.chunk)) {
      open.push(hit);
      found.push(hit);
    }
  }
  while (!open.empty()) {
    const VectorHit next = open.top();
    if (static_cast<int64_t>(found.size()) >= breadth && better(found.top(), next)) {
      break;
    }
    open.pop();
    for (const int32_t node : links(next.chunk, level)) {
      if (node < 0) {
        break;
      }
      if (!visited.mark(node)) {
        continue;
      }
      const VectorHit hit{node, table.score(node, query)};
      if (static_cast<int64_t>(found.size()) < breadth || better(hit, found.top())) {
        open.push(hit);
        found.push(hit);
        if (static_cast<int64_t>(found.size()) > breadth) {
          found.pop();
        }
      }
    }
  }
  std::vector<VectorHit> sorted(found.size());
  for (size_t i = sorted.size(); i-- > 0; found.pop()) {
    sorted[i] = found.top();
  }
  return sorted;
}

HnswGraph::Placement HnswGraph::place(const VectorTable& table, int64_t node, int64_t construction,
                                      Visited& visited) const {
  const int level = levels_[static_cast<size_t>(node)];
  const VectorQuery query = table.row_query(node);
  Placement placement;
  placement.neighbors.resize(static_cast<size_t>(level) + 1);
  std::vector<VectorHit> from = {descend(table, query, level)};
  for (int at = std::min<int>(level, levels_[static_cast<size_t>(entry_)]); at >= 0; --at) {
    from = search_level(table, query, from, construction, at, visited);
    placement.neighbors[static_cast<size_t>(at)] = select_neighbors(table, from, neighbors_);
  }
  return placement;
}

/// Adds links from `node` to nodes that have chosen it. Where there is no room, the best are kept.
void HnswGraph::link_back(const VectorTable& table, int64_t node, int level,
                          const std::vector<int64_t>& sources) {
  const std::span<int32_t> own = links(node, level);
  auto used = static_cast<size_t>(std::find(own.begin(), own.end(), -1) - own.begin());
  if (used + sources.size() <= own.size()) {
    for (const int64_t source : sources) {
      own[used++] = static_cast<int32_t>(source);
    }
    return;
  }
  const VectorQuery query = table.row_query(node);
  std::vector<VectorHit> candidates;
  for (size_t i = 0; i < used; ++i) {
    candidates.push_back({own[i], table.score(own[i], query)});
  }
  for (const int64_t source : sources) {
    candidates.push_back({source, table.score(source, query)});
  }
  std::sort(candidates.begin(), candidates.end(), better);
  const std::vector<int64_t> kept =
      select_neighbors(table, candidates, static_cast<int64_t>(own.size()));
  std::fill(own.begin(), own.end(), -1);
  std::copy(kept.begin(), kept.end(), own.begin());
}

/// Nodes of a batch look for their neighbors among those before the batch, all at once; then every
/// node that was chosen takes its new links, each by one thread and in a fixed order.
void HnswGraph::add_batch(const VectorTable& table, int64_t begin, int64_t end,
                          int64_t construction) {
  std::vector<Placement> placements(static_cast<size_t>(end - begin));
  constexpr int64_t kTogether = 16;
  parallel_for((end - begin + kTogether - 1) / kTogether, [&](int64_t task) {
    thread_local PerThread<std::vector<std::pair<int64_t, Visited>>> own;
    auto& kept = own.get();  // one per size of graph
    if (kept.empty() || kept.front().first != nodes()) {
      kept.clear();
      kept.emplace_back(nodes(), Visited(nodes()));
    }
    const int64_t stop = std::min(end - begin, (task + 1) * kTogether);
    for (int64_t i = task * kTogether; i < stop; ++i) {
      placements[static_cast<size_t>(i)] =
          place(table, begin + i, construction, kept.front().second);
    }
  });
  std::map<std::pair<int, int64_t>, std::vector<int64_t>> chosen;  // level, node: by whom
  for (int64_t node = begin; node < end; ++node) {
    const Placement& placement = placements[static_cast<size_t>(node - begin)];
    for (size_t level = 0; level < placement.neighbors.size(); ++level) {
      const std::span<int32_t> own = links(node, static_cast<int>(level));
      std::copy(placement.neighbors[level].begin(), placement.neighbors[level].end(), own.begin());
      for (const int64_t neighbor : placement.neighbors[level]) {
        chosen[{static_cast<int>(level), neighbor}].push_back(node);
      }
    }
  }
  const std::vector<std::pair<std::pair<int, int64_t>, std::vector<int64_t>>> all(chosen.begin(),
                                                                                  chosen.end());
  parallel_for(static_cast<int64_t>(all.size()), [&](int64_t i) {
    const auto& [place_of, sources] = all[static_cast<size_t>(i)];
    link_back(table, place_of.second, place_of.first, sources);
  });
  for (int64_t node = begin; node < end; ++node) {
    enter(node);
  }
}

HnswGraph HnswGraph::build(const VectorTable& table, const Options& options,
                           const std::function<bool()>& cancelled) {
  check(options.neighbors >= 2 && options.neighbors <= 256 && options.construction >= 1 &&
            table.size() < kMostNodes,
        "index", "a graph of {} vectors with {} neighbors cannot be built", table.size(),
        options.neighbors);
  HnswGraph graph(table.size(), options.neighbors);
  for (int64_t node = 0; node < table.size(); ++node) {
    graph.set_level(node, random_level(options.seed, node, options.neighbors));
  }
  constexpr int64_t kPart = 64;  // a batch is at most this part of the graph
  constexpr int64_t kMost = 4096;
  for (int64_t begin = 0; begin < table.size();) {
    if (cancelled && cancelled()) {
      return {};
    }
    if (begin == 0) {
      graph.enter(0);
      begin = 1;
      continue;
    }
    const int64_t size = std::clamp<int64_t>(begin / kPart, 1, kMost);
    const int64_t end = std::min(table.size(), begin + size);
    graph.add_batch(table, begin, end, options.construction);
    begin = end;
  }
  return graph;
}

std::vector<VectorHit> HnswGraph::search(const VectorTable& table, const float* query,
                                         int64_t count, int64_t breadth) const {
  check(table.size() == nodes(), "search", "a graph of {} nodes does not belong to {} vectors",
        nodes(), table.size());
  if (nodes() == 0) {
    return {};
  }
  const VectorQuery prepared = table.query(query);
  Visited visited(nodes());
  const std::vector<VectorHit> from = {descend(table, prepared, 0)};
  std::vector<VectorHit> found =
      search_level(table, prepared, from, std::max(count, breadth), 0, visited);
  found.resize(std::min(found.size(), static_cast<size_t>(count)));
  for (VectorHit& hit : found) {
    hit.chunk = table.id(hit.chunk);
  }
  std::sort(found.begin(), found.end(), better);
  return found;
}

std::vector<int32_t> HnswGraph::pack(int64_t begin, int64_t end) const {
  std::vector<int32_t> numbers(base_links_.begin() + begin * width(0),
                               base_links_.begin() + end * width(0));
  for (int64_t node = begin; node < end; ++node) {
    const int level = levels_[static_cast<size_t>(node)];
    if (level > 0) {
      numbers.push_back(static_cast<int32_t>(node));
      numbers.push_back(level);
      const std::span<const int32_t> first = links(node, 1);
      numbers.insert(numbers.end(), first.data(), first.data() + level * neighbors_);
    }
  }
  return numbers;
}

HnswGraph HnswGraph::unpack(std::span<const std::vector<int32_t>> blocks, int64_t block_rows,
                            int64_t nodes, int64_t neighbors, const std::string& file) {
  const auto damaged = [&](bool fine) {
    check_data(fine, file, "is damaged: the graph of its vectors does not fit them; index again");
  };
  damaged(neighbors >= 2 && neighbors <= 256 && nodes > 0 && nodes < kMostNodes && block_rows > 0 &&
          static_cast<int64_t>(blocks.size()) == (nodes + block_rows - 1) / block_rows);
  HnswGraph graph(nodes, neighbors);
  for (size_t block = 0; block < blocks.size(); ++block) {
    const std::vector<int32_t>& numbers = blocks[block];
    const int64_t begin = static_cast<int64_t>(block) * block_rows;
    const int64_t end = std::min(nodes, begin + block_rows);
    size_t at = static_cast<size_t>((end - begin) * graph.width(0));
    damaged(numbers.size() >= at);
    std::copy(numbers.begin(), numbers.begin() + static_cast<int64_t>(at),
              graph.base_links_.begin() + begin * graph.width(0));
    for (int64_t before = begin - 1; at < numbers.size();) {
      damaged(numbers.size() - at >= 2);
      const int64_t node = numbers[at], level = numbers[at + 1];
      damaged(node > before && node < end && level >= 1 && level <= kTopLevel);
      const auto count = static_cast<size_t>(level * neighbors);
      at += 2;
      damaged(numbers.size() - at >= count);
      graph.set_level(node, static_cast<int>(level));
      std::copy_n(numbers.begin() + static_cast<int64_t>(at), count, graph.links(node, 1).data());
      at += count;
      before = node;
    }
  }
  for (int64_t node = 0; node < nodes; ++node) {
    graph.enter(node);
    for (int level = 0; level <= graph.levels_[static_cast<size_t>(node)]; ++level) {
      for (const int32_t link : graph.links(node, level)) {
        damaged(link >= -1 && link < nodes &&
                (link < 0 || graph.levels_[static_cast<size_t>(link)] >= level));
      }
    }
  }
  return graph;
}

}  // namespace heed
