#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/check.h"
#include "base/language.h"
#include "base/print_message.h"
#include "base/printable.h"
#include "dist/communicator.h"
#include "heed/command.h"
#include "heed/language.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/retrieval.h"
#include "io/json_writer.h"

namespace heed::app::search_command {
namespace {

struct Options {
  std::string index, query, mode = "hybrid", model, query_model, tokenizer, rerank, language;
  bool hnsw = false;
  int64_t top_k = 10, candidates = 0;
};

/// Characters of the first `bytes` bytes of a text: what readers of JSON count in.
int64_t characters(std::string_view text, int64_t bytes) {
  int64_t count = 0;
  for (const char c : text.substr(0, static_cast<size_t>(bytes))) {
    count += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  return count;
}

void append_json(JsonWriter& json, const SearchResult& result) {
  json.begin_object();
  json.field("rank", result.rank).field("score", result.score);
  json.field("source", result.source).field("text", result.text);
  json.field("title", result.title).field("location", result.location);
  json.field("chunk", result.chunk);
  if (result.cosine) {
    json.field("cosine", *result.cosine);
  }
  if (result.bm25) {
    json.field("bm25", *result.bm25);
  }
  json.key("matches").begin_array();
  for (const TextSpan match : result.matches) {
    json.value(std::vector<int64_t>{characters(result.text, match.begin),
                                    characters(result.text, match.end)});
  }
  json.end_array().end_object();
}

/// The snippet on one line, with the matching parts in bold or, without colours, in brackets.
std::string marked_snippet(const SearchResult& result, bool colors) {
  std::string line = result.snippet.begin > 0 ? "… " : "";
  const auto append = [&](int64_t begin, int64_t end) {
    std::string part;
    for (int64_t i = begin; i < end; ++i) {
      const char c = result.text[static_cast<size_t>(i)];
      const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
      if (!control) {
        part += c;
      } else if (!part.ends_with(' ') && !(part.empty() && line.ends_with(' '))) {
        part += ' ';
      }
    }
    line += printable(part);
  };
  int64_t at = result.snippet.begin;
  for (const TextSpan match : result.matches) {
    if (match.begin < at || match.end > result.snippet.end) {
      continue;
    }
    append(at, match.begin);
    line += colors ? "\x1b[1;33m" : "[";
    append(match.begin, match.end);
    line += colors ? "\x1b[0m" : "]";
    at = match.end;
  }
  append(at, result.snippet.end);
  return line + (result.snippet.end < static_cast<int64_t>(result.text.size()) ? " …" : "");
}

void show(const std::vector<SearchResult>& results, const Common& common) {
  if (common.json) {
    JsonWriter json;
    json.begin_object().key("results").begin_array();
    for (const SearchResult& result : results) {
      append_json(json, result);
    }
    print(json.end_array().end_object().take() + "\n");
    return;
  }
  const bool colors = common.colors(STDOUT_FILENO);
  for (const SearchResult& result : results) {
    std::string where = result.source;
    where += result.location.empty() ? "" : ", " + result.location;
    where += result.title.empty() ? "" : " · " + result.title;
    print(fmt::format("{:2}. {:.4f}  {}\n    {}\n", result.rank, result.score, printable(where),
                      marked_snippet(result, colors)));
  }
}

int run(const Options& options, const Common& common) {
  Communicator& ranks = world();
  OpenIndexOptions open;
  open.model = options.model;
  open.tokenizer = options.tokenizer;
  open.query_model = options.query_model;
  open.reranker = options.rerank;
  open.distributed = ranks.size() > 1;
  SearchIndex index = SearchIndex::open(options.index, open);
  if (!index.info().complete && !common.quiet && ranks.is_root()) {
    print_message(
        tell("heed: {}: indexing was not finished; results may be incomplete", options.index));
  }
  SearchOptions search;
  search.mode = parse_search_mode(options.mode);
  search.top_k = options.top_k;
  search.candidates = options.candidates;
  search.hnsw = options.hnsw;
  const auto answer = [&](const std::string& query) {
    const std::vector<SearchResult> results = index.search(query, search);
    if (!ranks.is_root()) {
      return;
    }
    if (results.empty() && !common.json && !common.quiet) {
      print_message(tell("heed: nothing found: {}", query));
    }
    show(results, common);
  };
  if (!options.query.empty()) {
    answer(options.query);
  } else {
    check(ranks.size() == 1, "search", "give the QUERY as an argument under mpirun");
    for_each_line(answer);
  }
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("INDEX", &o->index, "Index file that `heed index` made").required().file();
  table.add("QUERY", &o->query, "What to look for (default: lines of stdin)");
  table.add("--mode", &o->mode, "dense (meaning), lexical (words, BM25) or hybrid (both)")
      .choices({"dense", "lexical", "hybrid"});
  table.add("--top-k,-k", &o->top_k, "Results").range(1, 10000);
  table
      .add("--candidates", &o->candidates,
           "Candidates before fusion or reranking; 0: chosen automatically")
      .range(0, 10000);
  table.add("--hnsw", &o->hnsw, "Approximate dense search by the graph of `heed index --hnsw`");
  table.add("--rerank", &o->rerank, "Cross-encoder that orders the candidates: a model folder")
      .file();
  table.add("--model", &o->model, "Encoder of the index, if it has moved").file();
  table.add("--query-model", &o->query_model, "Encoder of questions, if it is another one (DPR)")
      .file();
  add_tokenizer(table, o->tokenizer);
  table.add("--lang", &o->language, "Language (default: by the locale)").choices({"en", "ko"});
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"search",
     "Find passages in an index by meaning, by words or by both",
     {"heed search notes.heed-index \"how are heads combined?\"",
      "heed search wiki.heed-index 역사 --mode lexical --top-k 5 --json"},
     setup}};

}  // namespace
}  // namespace heed::app::search_command
