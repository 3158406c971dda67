#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "heed/ops.h"
#include "train/task.h"
#include "train/task_config.h"

namespace heed {
namespace {

/// The sizes of --matryoshka and the whole vector, largest first.
std::vector<int64_t> vector_sizes(const std::string& text, int64_t whole) {
  std::vector<int64_t> sizes{whole};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (error != std::errc() || stop != text.data() + end || size < 1 || size > whole) {
      fail(ErrorKind::usage, "matryoshka",
           "'{}' is not a list of sizes from 1 to {}, such as 128,64", text, whole);
    }
    sizes.push_back(size);
    begin = end + 1;
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Sums of the tokens' rows [texts, hidden]: a mean but for its length, which a cosine does not
/// see. Padding is zero there.
Tensor summed_rows(const Model& model, ModelInput input) {
  input.labels = {};
  input.skip_padding = true;
  input.passages = 1;  // texts are encoded on their own, and nothing is decoded
  const ModelOutput output = model.forward(input);
  check(output.last_hidden_state.defined(), "embed",
        "a {} with a head has no vectors; task embed needs an encoder without one",
        model.model_type());
  Tensor pooled = sum(output.last_hidden_state, 1);
  if (output.pooler_output.defined()) {
    // Not used; kept in the graph so that each parameter has a gradient.
    pooled = add(pooled, mul(sum(output.pooler_output), 0.0));
  }
  return pooled;
}

/// The first `size` numbers of the rows, as vectors of length 1.
Tensor unit_rows(const Tensor& rows, int64_t size) {
  constexpr double kTiny = 1e-12;
  const Tensor cut = contiguous(slice(rows, 1, 0, size));
  return div(cut, sqrt(add(sum(mul(cut, cut), 1, true), kTiny)));
}

/// Queries [rows, size], and the texts to choose from: all positives, then all first negatives, …
struct QueriesAndTexts {
  Tensor queries, texts;
};

QueriesAndTexts split_rows(const Tensor& rows, int64_t per_example, int64_t size) {
  const Tensor units =
      reshape(unit_rows(rows, size), {rows.size(0) / per_example, per_example, size});
  std::vector<Tensor> texts;
  for (int64_t i = 1; i < per_example; ++i) {
    texts.push_back(contiguous(select(units, 1, i)));
  }
  return {contiguous(select(units, 1, 0)), concat(texts, 0)};
}

/// In-batch contrast: each query must pick its positive among all positives and negatives of the
/// batch, by softmax over cosines / temperature. Mean over the sizes of vectors.
Tensor contrastive_loss(const Model& model, const ModelInput& input,
                        const std::vector<int64_t>& sizes, double temperature) {
  const Tensor all = summed_rows(model, input);
  const int64_t rows = all.size(0) / input.passages;
  std::vector<int64_t> own(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    own[static_cast<size_t>(i)] = i;
  }
  const Tensor targets = Tensor::from(own, {rows});
  Tensor loss;
  for (const int64_t size : sizes) {
    const auto [queries, texts] = split_rows(all, input.passages, size);
    const Tensor logits = mul(matmul(queries, transpose(texts)), 1.0 / temperature);
    const Tensor each = cross_entropy(logits, targets);
    loss = loss.defined() ? add(loss, each) : each;
  }
  return mul(loss, 1.0 / static_cast<double>(sizes.size()));
}

/// Of each query, the rank of its own positive among all texts, from 1; texts that are as close do
/// not count.
std::vector<int64_t> positive_ranks(const Tensor& rows, int64_t per_example, int64_t size) {
  constexpr int64_t kTogether = 256;  // queries whose cosines are in memory at a time
  const auto [queries, texts] = split_rows(rows, per_example, size);
  const Tensor columns = transpose(texts);
  std::vector<int64_t> ranks;
  for (int64_t begin = 0; begin < queries.size(0); begin += kTogether) {
    const int64_t end = std::min(begin + kTogether, queries.size(0));
    const Tensor cosines = matmul(contiguous(slice(queries, 0, begin, end)), columns).contiguous();
    for (int64_t i = begin; i < end; ++i) {
      const float* row = cosines.data<float>() + (i - begin) * texts.size(0);
      ranks.push_back(1 + std::count_if(row, row + texts.size(0),
                                        [own = row[i]](float other) { return other > own; }));
    }
  }
  return ranks;
}

struct RankScores {
  double ndcg_10 = 0.0, recall_1 = 0.0, recall_10 = 0.0;
};

/// Means over queries with one right text each: nDCG@10 is 1 / log2(1 + rank) up to rank 10.
RankScores rank_scores(const std::vector<int64_t>& ranks) {
  constexpr int64_t kCut = 10;
  RankScores scores;
  for (const int64_t rank : ranks) {
    scores.recall_1 += rank == 1 ? 1.0 : 0.0;
    scores.recall_10 += rank <= kCut ? 1.0 : 0.0;
    scores.ndcg_10 += rank <= kCut ? 1.0 / std::log2(1.0 + static_cast<double>(rank)) : 0.0;
  }
  const auto count = static_cast<double>(std::max<size_t>(ranks.size(), 1));
  return {scores.ndcg_10 / count, scores.recall_1 / count, scores.recall_10 / count};
}

}  // namespace

/// Contrastive training of an encoder. The negatives of a query are the texts of the other examples
/// that are computed with it (a micro-batch of a rank) and its own hard negatives.
Task make_embed_task(const TrainOptions& o) {
  const std::vector<RetrievalExample> examples = read_retrieval(o.data);
  const std::string arch = chosen_arch(o, "bert");
  std::vector<std::string> texts;
  for (const RetrievalExample& example : examples) {
    texts.push_back(example.query);
    texts.push_back(example.positive);
    texts.insert(texts.end(), example.negatives.begin(), example.negatives.end());
  }
  Task task;
  task.metric = TaskMetric::retrieval;
  task.tokenizer = choose_tokenizer(o, usual_tokenizer(arch), texts);
  const int64_t padding = sequence_tokens(task.tokenizer).padding;
  task.model =
      start_model(o, fresh_config(o, arch, task.tokenizer.vocab_size(), 0, 3, padding), true);
  check_data(task.model->kind() == ModelKind::encoder, o.from, "a {} does not do task embed",
             task.model->model_type());
  const std::vector<int64_t> sizes = vector_sizes(o.matryoshka, task.model->hidden_size());
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    return make_retrieval_loader(own_set ? read_retrieval(o.validation) : examples, task.tokenizer,
                                 sequence_tokens(task.tokenizer), loader);
  });
  task.loss = [sizes, temperature = o.temperature](const Model& model, const ModelInput& input) {
    return contrastive_loss(model, input, sizes, temperature);
  };
  return task;
}

std::vector<std::pair<std::string, double>> retrieval_metrics(const Model& model, const Task& task,
                                                              const TrainOptions& options) {
  std::vector<Tensor> parts;
  int64_t per_example = 1;
  for (int64_t step = 0; step < task.validation->steps_per_epoch(); ++step) {
    const ModelInput input = to_input(task.validation->batch(step), options, false);
    per_example = input.passages;
    parts.push_back(summed_rows(model, input));
  }
  const Tensor rows = concat(parts, 0);
  const std::vector<int64_t> sizes = vector_sizes(options.matryoshka, rows.size(1));
  const RankScores whole = rank_scores(positive_ranks(rows, per_example, sizes.front()));
  std::vector<std::pair<std::string, double>> metrics = {{"val_ndcg_10", whole.ndcg_10},
                                                         {"val_recall_1", whole.recall_1},
                                                         {"val_recall_10", whole.recall_10}};
  for (size_t i = 1; i < sizes.size(); ++i) {
    const RankScores scores = rank_scores(positive_ranks(rows, per_example, sizes[i]));
    metrics.emplace_back(fmt::format("val_ndcg_10_of_{}", sizes[i]), scores.ndcg_10);
  }
  return metrics;
}

}  // namespace heed
