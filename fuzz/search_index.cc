#include "fuzz/target.h"
#include "heed/retrieval.h"
#include "retrieval/index_store.h"

/// Any bytes as an index of `heed index`: opened, searched by words, vectors and graph loaded.
HEED_FUZZ_TARGET(search_index) {
  using namespace heed;
  fuzz::with_file(input, ".heed-index", [&](const std::filesystem::path& path) {
    fuzz::expect_error_or_success([&] {
      SearchIndex index = SearchIndex::open(path);
      index.search("city 역사", {.mode = SearchMode::lexical, .top_k = 3});
      const IndexStore store = IndexStore::open(path, false);
      const VectorTable vectors = store.load_vectors();
      if (store.has_graph()) {
        store.load_graph(vectors.size());
      }
    });
  });
}
