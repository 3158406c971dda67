#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "base/check.h"
#include "base/language.h"
#include "base/print_message.h"
#include "heed/command.h"
#include "heed/language.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/progress.h"
#include "heed/retrieval.h"
#include "io/json_writer.h"

namespace heed::app::index_command {
namespace {

struct Options {
  std::vector<std::string> docs;
  std::string model, tokenizer, out, language;
  std::optional<std::string> vectors, pooling, query_prefix, passage_prefix;
  bool hnsw = false;
  int64_t chunk_tokens = 0, overlap = -1, max_file_mb = 256;
};

volatile std::sig_atomic_t g_interrupted = 0;

/// The first SIGINT or SIGTERM ends the run after the batch; the second ends the program.
void on_signal(int number) {
  g_interrupted = 1;
  std::signal(number, SIG_DFL);
}

IndexOptions index_options(const Options& options, ProgressBar& bar) {
  IndexOptions result;
  result.model = options.model;
  result.tokenizer = options.tokenizer;
  if (options.chunk_tokens > 0) {
    result.chunk_tokens = options.chunk_tokens;
  }
  if (options.overlap >= 0) {
    result.overlap_tokens = options.overlap;
  }
  result.vector_type = options.vectors;
  result.pooling = options.pooling;
  result.query_prefix = options.query_prefix;
  result.passage_prefix = options.passage_prefix;
  if (options.hnsw) {
    result.hnsw = true;
  }
  result.max_file_bytes = options.max_file_mb << 20;
  result.progress = [&bar](const IndexProgress& at) { bar(at.bytes_done, at.bytes); };
  result.complain = [](const std::string& what) {
    print_message(tell("heed: left out: {}", translate_message(what)));
  };
  result.cancelled = [] { return g_interrupted != 0; };
  return result;
}

void show(const IndexReport& report, const Options& options, const Common& common) {
  if (common.json) {
    JsonWriter json;
    json.begin_object().field("index", options.out);
    json.field("files", report.files).field("unchanged", report.unchanged);
    json.field("removed", report.removed).field("failed", report.failed);
    json.field("chunks_added", report.chunks_added);
    json.field("chunks_removed", report.chunks_removed).field("chunks", report.chunks);
    json.field("seconds", report.seconds).field("complete", !report.cancelled);
    print(json.end_object().take() + "\n");
  } else if (!common.quiet) {
    const double rate =
        report.seconds > 0 ? static_cast<double>(report.chunks_added) / report.seconds : 0.0;
    print(
        tell("{}: {} files new or changed, {} unchanged, {} removed, {} failed\n"
             "{} chunks ({} added, {} removed) in {:.1f} s, {:.1f} chunks/s\n",
             options.out, report.files, report.unchanged, report.removed, report.failed,
             report.chunks, report.chunks_added, report.chunks_removed, report.seconds, rate));
  }
}

int run(const Options& options, const Common& common) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  IndexReport report;
  {
    ProgressBar bar(tell("indexing"), common);
    report = build_index(options.docs, options.out, index_options(options, bar));
  }
  show(report, options, common);
  if (report.cancelled) {
    fmt::print(
        stderr, "{}",
        tell("heed: interrupted; saved in {}. The same command goes on from there\n", options.out));
    return kInterrupted;
  }
  return report.failed > 0 ? 3 : 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table
      .add("DOCS", &o->docs,
           "Files and folders: text, Markdown, HTML, JSONL, CSV, TSV, and PDF by pdftotext")
      .required()
      .file();
  table.add("--model", &o->model, "Encoder: a model folder; needed for a new index").file();
  table.add("--out,-o", &o->out, "Index file to create or update").required().file();
  add_tokenizer(table, o->tokenizer);
  table.add("--chunk-tokens", &o->chunk_tokens, "Maximum number of tokens per chunk (default: 200)")
      .range(8, 8192);
  table
      .add("--overlap", &o->overlap,
           "Tokens repeated from the previous chunk, at most (default: 40)")
      .range(0, 4096);
  table.add("--vectors", &o->vectors, "f32, or int8: a quarter of the size (default: f32)")
      .choices({"f32", "int8"});
  table
      .add("--pooling", &o->pooling,
           "mean of all tokens, cls, or pooler (default: the model's own)")
      .choices({"mean", "cls", "pooler"});
  table.add("--query-prefix", &o->query_prefix, "Put before every query, such as \"query: \"");
  table.add("--passage-prefix", &o->passage_prefix,
            "Put before every chunk, such as \"passage: \"");
  table.add("--hnsw", &o->hnsw,
            "Also build an HNSW graph for approximate search, past about a million chunks");
  table.add("--max-file-mb", &o->max_file_mb, "Largest file, tables not counted").range(1, 65536);
  table.add("--lang", &o->language, "Language (default: by the locale)").choices({"en", "ko"});
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"index",
     "Build or update a search index of documents",
     {"heed index docs/ notes.md --model minilm --out notes.heed-index",
      "heed index wiki.jsonl --model minilm --vectors int8 --out wiki.heed-index"},
     setup}};

}  // namespace
}  // namespace heed::app::index_command
