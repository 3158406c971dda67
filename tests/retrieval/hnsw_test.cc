#include "retrieval/hnsw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "heed/retrieval.h"
#include "heed/runtime.h"
#include "retrieval/support.h"

namespace heed {
namespace {

constexpr int64_t kDim = 24;

/// Vectors of length 1 around some centres.
std::vector<float> clustered(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count * kDim));
  for (int64_t i = 0; i < count; ++i) {
    Random centre(99, random.below(40));
    double norm = 0.0;
    float* row = values.data() + i * kDim;
    for (int64_t d = 0; d < kDim; ++d) {
      row[d] = static_cast<float>(centre.normal() + 0.6 * random.normal());
      norm += double{row[d]} * row[d];
    }
    for (int64_t d = 0; d < kDim; ++d) {
      row[d] = static_cast<float>(row[d] / std::sqrt(norm));
    }
  }
  return values;
}

VectorTable table_of(VectorType type, int64_t count) {
  const std::vector<float> values = clustered(count, 3);
  VectorTable table(type, kDim);
  std::vector<int64_t> ids;
  std::vector<float> scales;
  std::vector<int8_t> rounded(values.size());
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(i * 3 + 1);
    const size_t at = static_cast<size_t>(i * kDim);
    scales.push_back(quantize_vector(values.data() + at, kDim, rounded.data() + at));
  }
  if (type == VectorType::f32) {
    table.append(ids, {}, std::as_bytes(std::span(values)));
  } else {
    table.append(ids, scales, std::as_bytes(std::span(rounded)));
  }
  return table;
}

std::vector<int32_t> packed(const HnswGraph& graph) { return graph.pack(0, graph.nodes()); }

TEST(Hnsw, FindsNearlyAllOfTheBest) {
  constexpr int64_t kQueries = 100;
  const std::vector<float> queries = clustered(kQueries, 4);
  for (const VectorType type : {VectorType::f32, VectorType::int8}) {
    const VectorTable table = table_of(type, 3000);
    const HnswGraph graph = HnswGraph::build(table, {});
    ASSERT_EQ(graph.nodes(), 3000);
    int64_t right = 0;
    for (int64_t i = 0; i < kQueries; ++i) {
      const std::vector<VectorHit> exact = table.search(queries.data() + i * kDim, 10);
      const std::vector<VectorHit> found = graph.search(table, queries.data() + i * kDim, 10, 100);
      ASSERT_EQ(found.size(), 10u);
      std::set<int64_t> best;
      for (const VectorHit& hit : exact) {
        best.insert(hit.chunk);
      }
      for (size_t at = 0; at < found.size(); ++at) {
        right += best.contains(found[at].chunk) ? 1 : 0;
        EXPECT_TRUE(at == 0 || !better(found[at], found[at - 1]));
      }
    }
    EXPECT_GE(right, 980) << "of 1000";
  }
}

TEST(Hnsw, IsTheSameForAnyNumberOfThreads) {
  const VectorTable table = table_of(VectorType::int8, 1500);
  std::vector<int32_t> first;
  const int before = thread_count();
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    const std::vector<int32_t> graph = packed(HnswGraph::build(table, {}));
    first = first.empty() ? graph : first;
    EXPECT_EQ(graph, first) << threads << " threads";
  }
  set_thread_count(before);
}

TEST(Hnsw, SmallGraphsAreExact) {
  for (const int64_t count : {1, 2, 17}) {
    const VectorTable table = table_of(VectorType::f32, count);
    const HnswGraph graph = HnswGraph::build(table, {});
    const std::vector<float> query = clustered(1, 8);
    const std::vector<VectorHit> exact = table.search(query.data(), 20);
    const std::vector<VectorHit> found = graph.search(table, query.data(), 20, 100);
    ASSERT_EQ(found.size(), exact.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].chunk, exact[i].chunk);
    }
  }
}

TEST(Hnsw, DamagedGraphsAreRefused) {
  const VectorTable table = table_of(VectorType::f32, 400);
  const std::vector<int32_t> whole = packed(HnswGraph::build(table, {}));
  const auto unpack = [](const std::vector<int32_t>& numbers, int64_t nodes, int64_t neighbors) {
    const std::vector<std::vector<int32_t>> blocks = {numbers};
    return HnswGraph::unpack(blocks, 65536, nodes, neighbors, "x.heed-index");
  };
  EXPECT_EQ(packed(unpack(whole, 400, 16)), whole);
  const auto refused = [&](std::vector<int32_t> numbers, int64_t nodes, int64_t neighbors) {
    try {
      unpack(numbers, nodes, neighbors);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_STREQ(error.what(),
                   "x.heed-index: is damaged: the graph of its vectors does not fit them; index "
                   "again");
    }
  };
  refused(whole, 401, 16);
  refused(whole, 399, 16);
  refused(whole, 400, 15);
  refused(whole, 0, 16);
  std::vector<int32_t> changed = whole;
  changed[0] = 400;
  refused(changed, 400, 16);
  changed[0] = -2;
  refused(changed, 400, 16);
  changed = whole;
  changed.pop_back();
  refused(changed, 400, 16);
  changed = whole;
  changed[400 * 32 + 1] = 13;  // the first upper node's level
  refused(changed, 400, 16);
}

TEST(Hnsw, AnIndexKeepsAGraphUntilItChanges) {
  const test::TemporaryFolder folder;
  const std::filesystem::path encoder = test::make_encoder(folder / "encoder");
  std::string rows;
  for (int i = 0; i < 60; ++i) {
    rows += "{\"text\":\"the city " + std::to_string(i * i) + " and its people " +
            std::to_string(i % 7) + "\"}\n";
  }
  test::write(folder / "docs" / "rows.jsonl", rows);
  IndexOptions options;
  options.model = encoder.native();
  const std::vector<std::string> docs = {(folder / "docs").native()};
  build_index(docs, folder / "x.heed-index", options);
  SearchOptions approximate{.mode = SearchMode::dense, .top_k = 5, .hnsw = true};
  try {
    SearchIndex::open(folder / "x.heed-index").search("people", approximate);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("has no HNSW graph"), std::string::npos);
  }
  options.hnsw = true;
  build_index(docs, folder / "x.heed-index", options);
  options.hnsw.reset();
  for (int round = 0; round < 2; ++round) {  // as built; after a change, which builds it again
    SearchIndex index = SearchIndex::open(folder / "x.heed-index");
    EXPECT_TRUE(index.info().hnsw && index.info().complete);
    const auto found = index.search("people", approximate);
    approximate.hnsw = false;
    const auto exact = index.search("people", approximate);
    approximate.hnsw = true;
    ASSERT_EQ(found.size(), exact.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].chunk, exact[i].chunk);
    }
    test::write(folder / "docs" / "more.txt", "cats and dogs live here");
    EXPECT_EQ(build_index(docs, folder / "x.heed-index", options).files, round == 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace heed
