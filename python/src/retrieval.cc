#include <nanobind/stl/filesystem.h>

#include <mutex>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

std::string part_of(const std::string& text, const heed::TextSpan& span) {
  return text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
}

nb::dict python_result(const heed::SearchResult& result) {
  nb::dict made;
  made["rank"] = result.rank;
  made["score"] = result.score;
  made["source"] = result.source;
  made["location"] = result.location;
  made["title"] = result.title;
  made["text"] = result.text;
  made["snippet"] = part_of(result.text, result.snippet);
  nb::list matches;
  for (const heed::TextSpan& match : result.matches) {
    matches.append(part_of(result.text, match));
  }
  made["matches"] = matches;
  if (result.cosine) {
    made["cosine"] = *result.cosine;
  }
  if (result.bm25) {
    made["bm25"] = *result.bm25;
  }
  return made;
}

nb::list python_results(const std::vector<heed::SearchResult>& results) {
  nb::list made;
  for (const heed::SearchResult& result : results) {
    made.append(python_result(result));
  }
  return made;
}

/// `progress` (may be None) is called with the bytes that were read and those of all changed files.
nb::dict build_index(const std::vector<std::string>& docs, const std::filesystem::path& out,
                     heed::IndexOptions options, const nb::object& progress) {
  std::vector<std::string> complaints;
  options.complain = [&](const std::string& what) { complaints.push_back(what); };
  if (!progress.is_none()) {
    options.progress = [&progress](const heed::IndexProgress& now) {
      const nb::gil_scoped_acquire acquire;
      progress(now.bytes_done, now.bytes);
    };
  }
  // Ctrl-C: what is embedded so far is written, and the same call goes on from there.
  const heed::IndexReport report = interruptible<Ends::by_itself>([&](std::stop_token stop) {
    options.cancelled = [stop] { return stop.stop_requested(); };
    return heed::build_index(docs, out, options);
  });
  if (report.cancelled) {
    raise_interrupted();
  }
  nb::dict made;
  made["files"] = report.files;
  made["unchanged"] = report.unchanged;
  made["removed"] = report.removed;
  made["failed"] = complaints;
  made["chunks_added"] = report.chunks_added;
  made["chunks_removed"] = report.chunks_removed;
  made["chunks"] = report.chunks;
  made["seconds"] = report.seconds;
  return made;
}

/// An index that several threads may use: one at a time searches.
struct PyIndex {
  std::filesystem::path path;
  heed::SearchIndex index;
  std::mutex mutex;
  PyIndex(const std::filesystem::path& file, const heed::OpenIndexOptions& options)
      : path(file), index(heed::SearchIndex::open(file, options)) {}
};

heed::SearchOptions search_options(const std::string& mode, int64_t top_k, bool hnsw = false) {
  heed::SearchOptions options;
  options.mode = heed::parse_search_mode(mode);
  options.top_k = top_k;
  options.hnsw = hnsw;
  return options;
}

nb::list search(PyIndex& self, const std::string& query, const std::string& mode, int64_t top_k,
                bool hnsw) {
  const heed::SearchOptions options = search_options(mode, top_k, hnsw);
  return python_results(interruptible([&](std::stop_token) {
    const std::lock_guard lock(self.mutex);
    return self.index.search(query, options);
  }));
}

nb::list search_vector(PyIndex& self, const Tensor& query, int64_t top_k) {
  const Tensor vector = heed::cast(query, DType::f32).contiguous();
  return python_results(interruptible([&](std::stop_token) {
    const std::lock_guard lock(self.mutex);
    return self.index.search_vector({vector.data<float>(), static_cast<size_t>(vector.numel())},
                                    top_k);
  }));
}

heed::Answer answer(PyIndex& self, const heed::LoadedModel& model, const std::string& question,
                    const std::string& reader, heed::AskOptions& options) {
  const std::lock_guard lock(self.mutex);
  if (reader == "rag") {  // two tokenizers, in folders of their own
    return heed::ask_rag(
        self.index, *model.model, heed::Tokenizer::load(model.path / "question_encoder_tokenizer"),
        heed::Tokenizer::load(model.path / "generator_tokenizer"), question, options);
  }
  if (reader == "fid") {
    return heed::ask_fid(self.index, *model.model, model.tokenizer, question, options);
  }
  if (const auto chat = heed::ChatTemplate::find(model.path)) {
    options.render = heed::chat_renderer(*chat);
  }
  return heed::ask(self.index, *model.model, model.tokenizer, question, options);
}

/// `on_text` (may be None) is called with the answer as it is written.
nb::dict ask(PyIndex& self, const std::string& question, const PyModel& model,
             const std::string& reader, const std::string& mode, int64_t top_k, int64_t max_tokens,
             double temperature, uint64_t seed, bool attention, const nb::object& on_text) {
  if (reader != "prompt" && reader != "fid" && reader != "rag") {
    throw nb::value_error(("there is no reader '" + reader + "'; use prompt, fid or rag").c_str());
  }
  heed::AskOptions options;
  options.search = search_options(mode, top_k);
  options.max_tokens = max_tokens;
  options.sampling.temperature = temperature;
  options.sampling.seed = seed;
  options.attention = attention;
  if (!on_text.is_none()) {
    options.on_text = [&on_text](std::string_view text) {
      const nb::gil_scoped_acquire acquire;
      on_text(python_text(text));
    };
  }
  const heed::Answer given = interruptible(
      [&](std::stop_token) { return answer(self, model.loaded, question, reader, options); });
  nb::dict made;
  made["answer"] = python_text(given.text);
  nb::list sources;
  for (const heed::AnswerSource& source : given.sources) {
    nb::dict each = python_result(source.result);
    each["number"] = source.number;
    if (attention) {
      each["attention"] = source.attention;
    }
    sources.append(each);
  }
  made["sources"] = sources;
  made["prompt_tokens"] = given.prompt_tokens;
  made["answer_tokens"] = given.answer_tokens;
  if (attention) {
    made["other_attention"] = given.other_attention;
  }
  return made;
}

void bind_index(nb::module_& m) {
  using Dict = nb::dict;
  nb::class_<PyIndex>(m, "SearchIndex")
      .def(
          "__init__",
          [](PyIndex* self, const std::filesystem::path& path, const std::string& model,
             const std::string& query_model, const std::string& reranker) {
            const nb::gil_scoped_release release;
            heed::OpenIndexOptions options;
            options.model = model;
            options.query_model = query_model;
            options.reranker = reranker;
            new (self) PyIndex(path, options);
          },
          "path"_a, "model"_a, "query_model"_a, "reranker"_a)
      .def("search", &search, "query"_a, "mode"_a, "top_k"_a, "hnsw"_a,
           nb::sig("def search(self, query: str, mode: str, top_k: int, hnsw: bool) -> "
                   "list[dict[str, typing.Any]]"))
      .def("search_vector", &search_vector, "query"_a, "top_k"_a,
           nb::sig("def search_vector(self, query: Tensor, top_k: int) -> "
                   "list[dict[str, typing.Any]]"))
      .def("ask", &ask, "question"_a, "model"_a, "reader"_a, "mode"_a, "top_k"_a, "max_tokens"_a,
           "temperature"_a, "seed"_a, "attention"_a, "on_text"_a.none(),
           nb::sig("def ask(self, question: str, model: Model, reader: str, mode: str, top_k: int, "
                   "max_tokens: int, temperature: float, seed: int, attention: bool, "
                   "on_text: typing.Any) -> dict[str, typing.Any]"))
      .def_prop_ro(
          "info",
          [](const PyIndex& self) {
            const heed::IndexInfo& info = self.index.info();
            Dict made;
            made["model"] = info.model;
            made["vector_type"] = info.vector_type;
            made["dimension"] = info.dimension;
            made["files"] = info.files;
            made["chunks"] = info.chunks;
            made["hnsw"] = info.hnsw;
            made["complete"] = info.complete;
            return made;
          },
          nb::sig("def info(self) -> dict[str, typing.Any]"));
}

}  // namespace

void bind_retrieval(nb::module_& m) {
  bind_index(m);
  m.def(
      "build_index",
      [](const std::vector<std::string>& docs, const std::filesystem::path& out,
         const std::string& model, std::optional<int64_t> chunk_tokens,
         std::optional<int64_t> overlap_tokens, std::optional<std::string> vector_type,
         std::optional<std::string> pooling, std::optional<std::string> query_prefix,
         std::optional<std::string> passage_prefix, std::optional<bool> hnsw,
         const nb::object& progress) {
        heed::IndexOptions options;
        options.model = model;
        options.chunk_tokens = chunk_tokens;
        options.overlap_tokens = overlap_tokens;
        options.vector_type = std::move(vector_type);
        options.pooling = std::move(pooling);
        options.query_prefix = std::move(query_prefix);
        options.passage_prefix = std::move(passage_prefix);
        options.hnsw = hnsw;
        return build_index(docs, out, std::move(options), progress);
      },
      "docs"_a, "out"_a, "model"_a, "chunk_tokens"_a.none(), "overlap_tokens"_a.none(),
      "vector_type"_a.none(), "pooling"_a.none(), "query_prefix"_a.none(),
      "passage_prefix"_a.none(), "hnsw"_a.none(), "progress"_a.none(),
      nb::sig(
          "def build_index(docs: collections.abc.Sequence[str], out: str | os.PathLike[str], "
          "model: str, chunk_tokens: int | None, overlap_tokens: int | None, vector_type: str | "
          "None, pooling: str | None, query_prefix: str | None, passage_prefix: str | None, "
          "hnsw: bool | None, progress: typing.Any) -> dict[str, typing.Any]"));
}

}  // namespace heed_python
