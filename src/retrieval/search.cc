#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/check.h"
#include "dist/communicator.h"
#include "heed/retrieval.h"
#include "retrieval/embedder.h"
#include "retrieval/index_store.h"
#include "retrieval/lexical.h"
#include "retrieval/reranker.h"
#include "retrieval/snippet.h"

namespace heed {
namespace {

constexpr int64_t kBreadth = 200;  // candidates of an approximate search
constexpr double kFusion = 60.0;   // of reciprocal rank fusion, as in Cormack et al. 2009

/// A chunk on its way to a result.
struct Candidate {
  int64_t chunk = 0;
  double score = 0.0;
  std::optional<double> cosine, bm25;
};

bool comes_first(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.chunk < b.chunk;
}

std::vector<Candidate> fuse(SearchMode mode, const std::vector<VectorHit>& dense,
                            const std::vector<VectorHit>& lexical) {
  std::map<int64_t, Candidate> found;
  const auto add = [&](const std::vector<VectorHit>& hits, bool is_dense) {
    for (size_t i = 0; i < hits.size(); ++i) {
      Candidate& candidate = found[hits[i].chunk];
      candidate.chunk = hits[i].chunk;
      candidate.score += mode == SearchMode::hybrid ? 1.0 / (kFusion + static_cast<double>(i + 1))
                                                    : double{hits[i].score};
      (is_dense ? candidate.cosine : candidate.bm25) = hits[i].score;
    }
  };
  add(dense, true);
  add(lexical, false);
  std::vector<Candidate> candidates;
  candidates.reserve(found.size());
  for (const auto& [chunk, candidate] : found) {
    candidates.push_back(candidate);
  }
  std::sort(candidates.begin(), candidates.end(), comes_first);
  return candidates;
}

void check_top_k(int64_t top_k) {
  constexpr int64_t kMost = 10'000;
  if (top_k < 1 || top_k > kMost) {
    fail(ErrorKind::usage, "top_k", "{} is not in 1 … {}", top_k, kMost);
  }
}

}  // namespace

SearchMode parse_search_mode(std::string_view name) {
  if (name == "dense") {
    return SearchMode::dense;
  }
  if (name == "lexical") {
    return SearchMode::lexical;
  }
  if (name != "hybrid") {
    fail(ErrorKind::usage, "search", "there is no mode {}; there are dense, lexical and hybrid",
         name);
  }
  return SearchMode::hybrid;
}

struct SearchIndex::Impl {
  Impl(const std::filesystem::path& path, OpenIndexOptions given)
      : store(IndexStore::open(path, false)), options(std::move(given)) {
    const IndexSettings& settings = store.settings();
    info.model = settings.model;
    info.vector_type = settings.vector_type;
    info.dimension = settings.dimension;
    info.files = store.files();
    info.chunks = store.chunks();
    info.hnsw = store.has_graph();
    info.complete = store.sealed();
  }

  /// The encoder, opened when it is first wanted: lexical search does without.
  const Embedder& opened_embedder() {
    if (!embedder) {
      const IndexSettings& settings = store.settings();
      const std::string& model = options.model.empty() ? settings.model : options.model;
      if (!std::filesystem::exists(model)) {
        fail(ErrorKind::usage, store.database().path().native(),
             "its encoder is no longer at {}; say where the model is, or search in mode lexical",
             model);
      }
      embedder.emplace(model, options.tokenizer, settings.pooling);
      if (embedder->fingerprint() != settings.model_fingerprint) {
        fail(ErrorKind::usage, store.database().path().native(),
             "was made with another model than {} is now; index again, or give the right model",
             model);
      }
      store.check_dimension(embedder->dimension());
    }
    return *embedder;
  }

  LexicalSearch& opened_lexical() {
    if (!lexical) {
      lexical.emplace(store.database());
    }
    return *lexical;
  }

  /// The encoder of questions: the index's own, unless passages have another (DPR).
  const Embedder& query_embedder() {
    const IndexSettings& settings = store.settings();
    const std::string& file = store.database().path().native();
    if (options.query_model.empty()) {
      if (settings.pooling == "pooler") {
        fail(ErrorKind::usage, file,
             "was made with a passage encoder (DPR); name its question encoder as "
             "query_model, or search by words (lexical)");
      }
      return opened_embedder();
    }
    if (!embedder) {
      embedder.emplace(options.query_model, options.tokenizer, settings.pooling);
      check_dimension(embedder->dimension());
    }
    return *embedder;
  }

  void check_dimension(int64_t dimension) const {
    if (dimension != store.settings().dimension) {
      fail(ErrorKind::usage, store.database().path().native(),
           "has vectors of {} numbers, the question's has {}: its encoder does not belong to the "
           "index",
           store.settings().dimension, dimension);
    }
  }

  std::vector<float> embed_query(std::string_view query) {
    const std::string text = store.settings().query_prefix + std::string(query);
    return query_embedder().embed(std::span(&text, 1));
  }

  /// `embed` gives the question's vector; under mpirun the root asks it.
  std::vector<VectorHit> search_dense(const std::function<std::vector<float>()>& embed,
                                      int64_t count, bool hnsw) {
    Communicator* ranks = options.distributed ? &world() : nullptr;
    if (!vectors) {
      vectors.emplace(ranks == nullptr ? store.load_vectors()
                                       : store.load_vectors(ranks->rank(), ranks->size()));
    }
    std::vector<float> embedded(static_cast<size_t>(store.settings().dimension));
    if (ranks == nullptr || ranks->is_root()) {
      embedded = embed();
    }
    if (hnsw) {
      return opened_graph().search(*vectors, embedded.data(), count, kBreadth);
    }
    if (ranks == nullptr) {
      return vectors->search(embedded.data(), count);
    }
    ranks->broadcast(embedded.data(), embedded.size() * sizeof(float));
    const std::vector<VectorHit> mine = vectors->search(embedded.data(), count);
    const std::string_view bytes(reinterpret_cast<const char*>(mine.data()),
                                 mine.size() * sizeof(VectorHit));
    std::vector<std::vector<VectorHit>> lists;
    for (const std::string& theirs : ranks->gather(bytes)) {
      lists.emplace_back(theirs.size() / sizeof(VectorHit));
      std::memcpy(static_cast<void*>(lists.back().data()), theirs.data(), theirs.size());
    }
    return merge_hits(lists, count);
  }

  const HnswGraph& opened_graph() {
    const std::string& file = store.database().path().native();
    if (options.distributed) {
      fail(ErrorKind::usage, file, "is searched exactly by several ranks; switch `hnsw` off");
    }
    if (!info.hnsw) {
      fail(ErrorKind::usage, file, "has no HNSW graph; build it with `heed index --hnsw`");
    }
    if (!graph) {
      graph.emplace(store.load_graph(vectors->size()));
    }
    return *graph;
  }

  SearchResult read(const Candidate& candidate) const {
    Statement get(store.database(),
                  "SELECT file.name, location, title, text FROM chunk JOIN file ON file.id = "
                  "chunk.file WHERE chunk.id = ?");
    get.bind(candidate.chunk);
    check_data(get.next(), store.database().path().native(),
               "is damaged: chunk {} is missing; make it again", candidate.chunk);
    SearchResult result;
    result.score = candidate.score;
    result.chunk = candidate.chunk;
    result.source = get.text(0);
    result.location = get.text(1);
    result.title = get.text(2);
    result.text = get.text(3);
    result.cosine = candidate.cosine;
    result.bm25 = candidate.bm25;
    return result;
  }

  std::vector<SearchResult> results_of(const std::vector<Candidate>& candidates,
                                       const std::vector<std::string>& terms) const {
    const std::set<std::string> wanted(terms.begin(), terms.end());
    std::vector<SearchResult> results;
    for (const Candidate& candidate : candidates) {
      SearchResult result = read(candidate);
      result.rank = static_cast<int64_t>(results.size()) + 1;
      result.matches = find_matches(result.text, wanted);
      result.snippet = snippet_of(result.text, result.matches);
      results.push_back(std::move(result));
    }
    return results;
  }

  /// Puts the candidates in the order of the cross-encoder's scores.
  void rerank(std::string_view query, std::vector<Candidate>& candidates) {
    if (!reranker) {
      reranker.emplace(options.reranker);
    }
    std::vector<std::string> passages;
    passages.reserve(candidates.size());
    for (const Candidate& candidate : candidates) {
      passages.push_back(read(candidate).text);
    }
    const std::vector<double> scores = reranker->score(query, passages);
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].score = scores[i];
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  }

  IndexStore store;
  OpenIndexOptions options;
  IndexInfo info;
  std::optional<Embedder> embedder;
  std::optional<VectorTable> vectors;
  std::optional<LexicalSearch> lexical;
  std::optional<HnswGraph> graph;
  std::optional<Reranker> reranker;
};

SearchIndex::SearchIndex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SearchIndex::SearchIndex(SearchIndex&&) noexcept = default;
SearchIndex& SearchIndex::operator=(SearchIndex&&) noexcept = default;
SearchIndex::~SearchIndex() = default;

SearchIndex SearchIndex::open(const std::filesystem::path& path, const OpenIndexOptions& options) {
  return SearchIndex(std::make_unique<Impl>(path, options));
}

const IndexInfo& SearchIndex::info() const { return impl_->info; }

std::vector<SearchResult> SearchIndex::search(std::string_view text, const SearchOptions& options) {
  check_top_k(options.top_k);
  const std::string query = compose_hangul(std::string(text));
  const bool rerank = !impl_->options.reranker.empty();
  const bool single = options.mode != SearchMode::hybrid && !rerank;
  int64_t count = options.candidates > 0 ? options.candidates
                  : single               ? options.top_k
                  : rerank               ? std::max<int64_t>(50, 2 * options.top_k)
                                         : std::max<int64_t>(100, 3 * options.top_k);
  count = std::max(count, options.top_k);
  const std::vector<std::string> terms = query_terms(query);
  std::vector<VectorHit> dense, lexical;
  if (options.mode != SearchMode::lexical) {
    dense = impl_->search_dense([&] { return impl_->embed_query(query); }, count, options.hnsw);
  }
  if (options.mode != SearchMode::dense) {
    lexical = impl_->opened_lexical().search(terms, count);
  }
  std::vector<Candidate> candidates = fuse(options.mode, dense, lexical);
  if (rerank) {
    candidates.resize(std::min(candidates.size(), static_cast<size_t>(count)));
    impl_->rerank(query, candidates);
  }
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(options.top_k)));
  return impl_->results_of(candidates, terms);
}

std::vector<SearchResult> SearchIndex::search_vector(std::span<const float> query, int64_t top_k) {
  check_top_k(top_k);
  impl_->check_dimension(static_cast<int64_t>(query.size()));
  const std::vector<VectorHit> hits = impl_->search_dense(
      [&] { return std::vector<float>(query.begin(), query.end()); }, top_k, false);
  return impl_->results_of(fuse(SearchMode::dense, hits, {}), {});
}

}  // namespace heed
