#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "heed/ops.h"
#include "train/task.h"
#include "train/task_config.h"

namespace heed {
namespace {

/// Sizes of --matryoshka that are smaller than the whole vector, and the whole, largest first.
std::vector<int64_t> vector_sizes(const std::string& text, int64_t whole) {
  std::vector<int64_t> sizes{whole};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (error != std::errc() || stop != text.data() + end || size < 1 || size > whole) {
      fail(ErrorKind::usage, "--matryoshka",
           "'{}' is no list of sizes from 1 to {}, such as 128,64", text, whole);
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
  const ModelOutput output = model.forward(input);
  Tensor pooled = sum(output.last_hidden_state, 1);
  if (output.pooler_output.defined()) {
    // Not used; kept in the graph so that each parameter has a gradient.
    pooled = add(pooled, mul(sum(output.pooler_output), 0.0));
  }
  return pooled;
}

/// Rows of length 1.
Tensor unit_rows(const Tensor& rows) {
  constexpr double kTiny = 1e-12;
  return div(rows, sqrt(add(sum(mul(rows, rows), 1, true), kTiny)));
}

/// In-batch contrast: each query must pick its positive among all positives and negatives of the
/// batch, by softmax over cosines / temperature. Mean over the sizes of vectors.
Tensor contrastive_loss(const Model& model, const ModelInput& input,
                        const std::vector<int64_t>& sizes, double temperature) {
  const int64_t texts = input.passages;
  const int64_t rows = input.input_ids.size(0) / texts;
  const Tensor all = summed_rows(model, input);
  std::vector<int64_t> own(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    own[static_cast<size_t>(i)] = i;
  }
  const Tensor targets = Tensor::from(own, {rows});
  Tensor loss;
  for (const int64_t size : sizes) {
    const Tensor units =
        reshape(unit_rows(contiguous(slice(all, 1, 0, size))), {rows, texts, size});
    std::vector<Tensor> candidates;
    for (int64_t i = 1; i < texts; ++i) {
      candidates.push_back(contiguous(select(units, 1, i)));
    }
    const Tensor logits =
        mul(matmul(contiguous(select(units, 1, 0)), transpose(concat(candidates, 0))),
            1.0 / temperature);
    const Tensor each = cross_entropy(logits, targets);
    loss = loss.defined() ? add(loss, each) : each;
  }
  return mul(loss, 1.0 / static_cast<double>(sizes.size()));
}

}  // namespace

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
  task.judge = Judge::retrieval;
  task.tokenizer = choose_tokenizer(o, usual_tokenizer(arch).c_str(), texts);
  task.model = start_model(o, fresh_config(o, arch, task.tokenizer.vocab_size()));
  check_data(task.model->kind() == ModelKind::encoder, o.from, "a {} does not do task embed",
             task.model->model_type());
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    return make_retrieval_loader(own_set ? read_retrieval(o.validation) : examples, task.tokenizer,
                                 sequence_tokens(task.tokenizer), loader);
  });
  const std::vector<int64_t> sizes = vector_sizes(o.matryoshka, task.model->hidden_size());
  task.loss = [sizes, temperature = o.temperature](const Model& model, const ModelInput& input) {
    return contrastive_loss(model, input, sizes, temperature);
  };
  return task;
}

std::vector<std::pair<std::string, double>> retrieval_metrics(const Model& model, const Task& task,
                                                              const TrainOptions& options) {
  constexpr int64_t kCut = 10;
  std::vector<Tensor> parts;
  int64_t texts = 1;
  for (int64_t step = 0; step < task.validation->steps_per_epoch(); ++step) {
    const ModelInput input = to_input(task.validation->batch(step), options, false);
    texts = input.passages;
    parts.push_back(unit_rows(summed_rows(model, input)));
  }
  const Tensor units = concat(parts, 0);
  const int64_t size = units.size(1);
  const int64_t queries = units.size(0) / texts;
  const float* data = units.data<float>();
  double first = 0.0, among = 0.0, gain = 0.0;
  for (int64_t i = 0; i < queries; ++i) {
    const float* query = data + i * texts * size;
    const auto score = [&](int64_t text) {
      double product = 0.0;
      for (int64_t d = 0; d < size; ++d) {
        product += double{query[d]} * data[text * size + d];
      }
      return product;
    };
    const double own = score(i * texts + 1);
    int64_t rank = 1;
    for (int64_t text = 0; text < queries * texts; ++text) {
      rank += text % texts != 0 && score(text) > own ? 1 : 0;
    }
    first += rank == 1 ? 1.0 : 0.0;
    among += rank <= kCut ? 1.0 : 0.0;
    gain += rank <= kCut ? 1.0 / std::log2(1.0 + static_cast<double>(rank)) : 0.0;
  }
  const auto count = static_cast<double>(std::max<int64_t>(queries, 1));
  return {{"val_ndcg_10", gain / count},
          {"val_recall_1", first / count},
          {"val_recall_10", among / count}};
}

}  // namespace heed
