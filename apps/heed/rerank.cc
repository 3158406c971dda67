#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/lines.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "io/json_writer.h"
#include "retrieval/reranker.h"

namespace heed::app::rerank_command {
namespace {

struct Options {
  std::string model, query;
  std::vector<std::string> texts;
  int64_t top_k = 0;
};

void print_json(const std::vector<std::string>& texts, const std::vector<double>& scores,
                const std::vector<size_t>& order) {
  JsonWriter out;
  out.begin_object().key("results").begin_array();
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const size_t i = order[rank];
    out.begin_object().field("rank", static_cast<int64_t>(rank + 1));
    out.field("index", static_cast<int64_t>(i)).field("score", scores[i]);
    out.field("text", texts[i]).end_object();
  }
  print(out.end_array().end_object().take() + "\n");
}

int run(const Options& options, const Common& common) {
  const Reranker reranker(find_model(options.model).native());
  std::vector<std::string> texts;
  constexpr int64_t kAtOnce = 4096;
  Lines lines(options.texts, kAtOnce, common);
  lines.for_each([&](const std::vector<std::string>& some) {
    texts.insert(texts.end(), some.begin(), some.end());
  });
  const std::vector<double> scores = reranker.score(options.query, texts);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < order.size()) {
    order.resize(static_cast<size_t>(options.top_k));
  }
  if (common.json) {
    print_json(texts, scores, order);
    return 0;
  }
  for (const size_t i : order) {
    print(fmt::format("{:.6f}\t{}\n", scores[i], printable(texts[i])));
  }
  return 0;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  table.add("MODEL", &o->model, "Model folder of a cross-encoder (a sequence classifier)")
      .required()
      .file();
  table.add("--query", &o->query, "What the texts should answer").required();
  table.add("--text", &o->texts, "Text; may be given several times (default: lines of stdin)");
  table.add("--top-k", &o->top_k, "Only the K best texts (default: all)").range(0, 1 << 30);
  return [o, &common] { return run(*o, common); };
}

const Registration kRegistration{
    {"rerank",
     "Order texts by their relevance to a query with a cross-encoder",
     {"heed rerank reranker --query \"capital of France\" --text \"Paris is …\" --text \"Rome …\"",
      "heed rerank reranker --query \"수도\" --top-k 3 --json < passages.txt"},
     setup}};

}  // namespace
}  // namespace heed::app::rerank_command
