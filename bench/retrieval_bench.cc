// Search and reading of passages: bench_retrieval [MINILM]. Exact search over a million vectors
// against the speed of reading them; a hybrid query at 100,000 passages, the encoder included (with
// the folder of MiniLM); a FiD reader by the number of passages.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "alternate.h"
#include "heed/models.h"
#include "heed/retrieval.h"
#include "heed/runtime.h"
#include "heed/tensor.h"
#include "machine.h"
#include "retrieval/embedder.h"
#include "retrieval/hnsw.h"
#include "retrieval/index_store.h"

namespace {

using namespace heed;
namespace fs = std::filesystem;

constexpr int64_t kDim = 384;

double milliseconds(const std::function<void()>& run, int rounds) {
  std::vector<bench::Contestant> one{{"", run}};
  bench::alternate(one, rounds);
  return one.front().median() * 1e3;
}

/// Random rows of length about 1; `blocks` of them differ, which the speed does not see.
VectorTable random_table(VectorType type, int64_t count) {
  constexpr int64_t kBlock = 4096;
  VectorTable table(type, kDim);
  table.reserve(count);
  Random random(1);
  std::vector<float> values(kBlock * kDim);
  for (float& value : values) {
    value = static_cast<float>(random.normal() * 0.05);
  }
  std::vector<int8_t> rounded(values.size());
  std::vector<float> scales;
  for (int64_t i = 0; i < kBlock; ++i) {
    scales.push_back(quantize_vector(values.data() + i * kDim, kDim, rounded.data() + i * kDim));
  }
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const auto rows = static_cast<size_t>(std::min(kBlock, count - begin));
    std::vector<int64_t> ids(rows);
    for (size_t i = 0; i < rows; ++i) {
      ids[i] = begin + static_cast<int64_t>(i) + 1;
    }
    if (type == VectorType::f32) {
      table.append(ids, {}, std::as_bytes(std::span(values).first(rows * kDim)));
    } else {
      table.append(ids, std::span(scales).first(rows),
                   std::as_bytes(std::span(rounded).first(rows * kDim)));
    }
  }
  return table;
}

void exact_search() {
  constexpr int64_t kCount = 1'000'000;
  Random random(2);
  std::vector<float> query(kDim);
  for (float& value : query) {
    value = static_cast<float>(random.normal() * 0.05);
  }
  const Tensor far = Tensor::full({int64_t{1} << 27}, 1.0, DType::f64);
  const VectorTable int8 = random_table(VectorType::int8, kCount);
  const VectorTable f32 = random_table(VectorType::f32, kCount);
  std::vector<bench::Contestant> all{{"reading", [&] { bench::read_all(far); }},
                                     {"int8", [&] { int8.search(query.data(), 10); }},
                                     {"f32", [&] { f32.search(query.data(), 10); }}};
  bench::alternate(all, 15);
  const double read = static_cast<double>(far.bytes()) / all[0].median();
  std::printf("reading beyond L3: %.1f GB/s\n", read / 1e9);
  for (size_t i = 1; i < all.size(); ++i) {
    const double bytes = static_cast<double>(kCount * kDim) * (i == 2 ? 4 : 1);
    const double time = all[i].median();
    std::printf("1,000,000 x 384 %-4s exactly: %6.1f ms, %5.1f GB/s, %3.0f %% of reading\n",
                all[i].name.c_str(), time * 1e3, bytes / time / 1e9, 100 * bytes / time / read);
  }
}

/// An index of 100,000 short passages with random vectors under MiniLM's name.
void hybrid_query(const fs::path& minilm) {
  constexpr int64_t kPassages = 100'000;
  const fs::path file = fs::temp_directory_path() / "heed-bench-retrieval.heed-index";
  fs::remove(file);
  {
    const Embedder embedder(minilm, "", "");
    IndexSettings settings;
    settings.model = minilm;
    settings.model_fingerprint = embedder.fingerprint();
    settings.dimension = embedder.dimension();
    const IndexStore store = IndexStore::create(file, settings);
    Transaction transaction(store.database());
    StoredFile document;
    document.path = document.name = "words";
    document.complete = true;
    const int64_t id = store.put_file(document);
    Random random(3);
    std::vector<int64_t> ids;
    std::vector<float> vectors;
    for (int64_t i = 0; i < kPassages; ++i) {
      Chunk chunk;
      for (int word = 0; word < 40; ++word) {  // common words more often than rare ones
        const double rank = std::exp(random.uniform() * std::log(30'000.0));
        chunk.text += fmt::format("w{} ", static_cast<int64_t>(rank));
      }
      chunk.hash = static_cast<uint64_t>(i);
      ids.push_back(store.add_chunk(id, i, chunk));
      for (int64_t d = 0; d < kDim; ++d) {
        vectors.push_back(static_cast<float>(random.normal() * 0.05));
      }
      if (ids.size() == 1024 || i + 1 == kPassages) {
        store.add_vectors(ids, vectors.data());
        ids.clear();
        vectors.clear();
      }
    }
    store.break_seal();
    transaction.commit();
    store.seal();
  }
  SearchIndex index = SearchIndex::open(file);
  int64_t number = 0;
  const auto ask = [&](SearchMode mode) {
    return milliseconds(
        [&] {
          ++number;
          index.search(fmt::format("where does w{} meet w{} and w{}?", 7 + number % 50,
                                   100 + number, 3000 + number),
                       {.mode = mode, .top_k = 10});
        },
        31);
  };
  for (const auto& [name, mode] : {std::pair{"dense", SearchMode::dense},
                                   {"lexical", SearchMode::lexical},
                                   {"hybrid", SearchMode::hybrid}}) {
    std::printf("100,000 passages, %-7s %6.1f ms per query, encoder included\n", name, ask(mode));
  }
  fs::remove(file);
}

/// A reader of t5-small's sizes: encoding passages of 200 tokens and writing 16 tokens.
void fid_growth() {
  const auto reader = create_model(
      R"({"model_type":"t5","d_model":512,"d_kv":64,"d_ff":2048,"num_layers":6,"num_heads":8,
          "vocab_size":4096})",
      1);
  double per_passage = 0.0;
  for (const int64_t passages : {5, 10, 20, 40}) {
    ModelInput input;
    input.input_ids = Tensor::full({passages, 200}, 5, DType::i64);
    input.passages = passages;
    const double time = milliseconds(
        [&] {
          Request request;
          request.encoder = input;
          request.max_tokens = 16;
          request.decoder_start_token_id = 0;
          request.on_token = [](const SampledToken&) { return true; };
          Scheduler scheduler(*reader, 1);
          scheduler.add(std::move(request));
          scheduler.run();
        },
        5);
    per_passage = per_passage > 0 ? per_passage : time / static_cast<double>(passages);
    std::printf("FiD, %2d passages of 200 tokens: %7.0f ms, %.2f of linear growth\n",
                static_cast<int>(passages), time,
                time / static_cast<double>(passages) / per_passage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a run that is cut short shows what it has
  const heed::NoGrad no_grad;
  exact_search();
  if (argc > 1) {
    hybrid_query(argv[1]);
  } else {
    std::printf("no folder of MiniLM was given: no hybrid queries\n");
  }
  fid_growth();
}
