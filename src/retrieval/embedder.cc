#include "retrieval/embedder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/check.h"
#include "base/checksum.h"
#include "base/parallel.h"
#include "data/sources.h"
#include "heed/autograd.h"
#include "heed/model_spec.h"
#include "io/json.h"

namespace heed {
namespace {

constexpr int64_t kBatchTokens = 4096;  // computed together
constexpr int64_t kLongest = 8192;      // tokens, where the model has no limit of its own

/// The folder that holds config.json: of a run folder its model/.
std::filesystem::path model_folder(const std::string& path) {
  const std::filesystem::path base = base_model_path(path);
  const std::filesystem::path inner = base / "model";
  return std::filesystem::exists(inner / "config.json") ? inner : base;
}

/// What sentence-transformers keeps beside a model: how rows become one vector.
std::string pooling_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "1_Pooling" / "config.json";
  if (!std::filesystem::exists(file)) {
    return "mean";
  }
  const Json config = Json::read(file);
  const bool cls = config.boolean_or("pooling_mode_cls_token", false);
  check_data(cls || config.boolean_or("pooling_mode_mean_tokens", true), file.native(),
             "wants a pooling that is neither mean nor cls; choose one of them");
  return cls ? "cls" : "mean";
}

}  // namespace

Embedder::Embedder(const std::string& model, const std::string& tokenizer,
                   const std::string& pooling)
    : path_(model), model_(load_model(model)) {
  const std::filesystem::path folder = model_folder(model);
  tokenizer_ = Tokenizer::load(tokenizer.empty() ? folder : std::filesystem::path(tokenizer));
  const ModelSpec* spec = find_model_spec(model_->model_type());
  const bool pooler = spec != nullptr && spec->pooler_is_embedding;
  pooling_ = !pooling.empty() ? pooling : pooler ? "pooler" : pooling_of(folder);
  check_data(
      model_->vocab_size() == 0 || tokenizer_.vocab_size() <= model_->vocab_size(), model,
      "the tokenizer has {} tokens, the model {} embedding rows; they do not belong together",
      tokenizer_.vocab_size(), model_->vocab_size());
  if (model_->kind() != ModelKind::encoder) {
    fail(ErrorKind::usage, model,
         "an index needs a text encoder (bert, distilbert, …); this folder holds a {}",
         model_->model_type());
  }
  dimension_ = model_->hidden_size();
  if (pooling_ == "pooler") {  // a projection may change the size
    const NoGrad no_grad;
    ModelInput input;
    input.input_ids = Tensor::zeros({1, 1}, DType::i64);
    const Tensor vector = model_->forward(input).pooler_output;
    if (!vector.defined()) {
      fail(ErrorKind::usage, model, "has no pooler; choose another --pooling");
    }
    dimension_ = vector.size(1);
  }
}

std::string Embedder::fingerprint() const {
  uint64_t sum = fingerprint_of(model_->model_type() + "/" + pooling_);
  for (const Parameter& parameter : model_->parameters()) {
    const Tensor tensor = parameter.tensor.contiguous();
    sum = fingerprint_of(parameter.name, sum);
    sum = fingerprint_of(tensor.raw(), static_cast<size_t>(tensor.bytes()), sum);
  }
  return fmt::format("{:016x}", fingerprint_of_tokenizer(tokenizer_, sum));
}

std::vector<float> Embedder::embed(std::span<const std::string> texts) const {
  if (texts.empty()) {
    return {};
  }
  const auto dim = static_cast<size_t>(dimension());
  const int64_t context = model_->context_length() > 0 ? model_->context_length() : kLongest;
  Tokenizer::BatchOptions options;
  options.truncation = Truncation{.max_length = context};
  const std::vector<Encoding> encodings = tokenizer_.encode_batch(texts, options);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return encodings[a].ids.size() > encodings[b].ids.size();
  });
  std::vector<float> vectors(texts.size() * dim, 0.0F);
  std::vector<const std::vector<TokenId>*> rows;
  std::vector<float*> out;
  int64_t tokens = 0;
  const auto finish = [&] {
    if (!rows.empty()) {
      embed_batch(rows, out);
    }
    rows.clear();
    out.clear();
    tokens = 0;
  };
  for (const size_t i : order) {
    const auto length = static_cast<int64_t>(encodings[i].ids.size());
    if (length == 0) {
      continue;  // no tokens: the zero vector, as far from all others
    }
    if (tokens + length > kBatchTokens) {
      finish();
    }
    rows.push_back(&encodings[i].ids);
    out.push_back(vectors.data() + i * dim);
    tokens += length;
  }
  finish();
  return vectors;
}

void Embedder::embed_batch(std::span<const std::vector<TokenId>* const> rows,
                           std::span<float* const> out) const {
  const NoGrad no_grad;
  const auto count = static_cast<int64_t>(rows.size());
  const auto longest = static_cast<int64_t>(rows.front()->size());
  ModelInput input;
  input.input_ids = Tensor::zeros({count, longest}, DType::i64);
  input.attention_mask = Tensor::zeros({count, longest}, DType::i64);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<TokenId>& ids = *rows[static_cast<size_t>(i)];
    std::copy(ids.begin(), ids.end(), input.input_ids.data<int64_t>() + i * longest);
    std::fill_n(input.attention_mask.data<int64_t>() + i * longest, ids.size(), 1);
  }
  input.skip_padding = true;
  const ModelOutput output = model_->forward(input);
  if (pooling_ == "pooler") {
    const Tensor vectors = output.pooler_output.contiguous();
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(vectors.data<float>() + i * dimension_, dimension_, out[static_cast<size_t>(i)]);
    }
    return;
  }
  const Tensor hidden = output.last_hidden_state;
  if (!hidden.defined()) {
    fail(ErrorKind::usage, path_, "this model has a head; an index needs an encoder without one");
  }
  const int64_t dim = hidden.size(2);
  const float* data = hidden.data<float>();
  for (int64_t i = 0; i < count; ++i) {
    const auto length = static_cast<int64_t>(rows[static_cast<size_t>(i)]->size());
    const int64_t used = pooling_ == "cls" ? 1 : length;
    std::vector<double> sum(static_cast<size_t>(dim), 0.0);
    for (int64_t t = 0; t < used; ++t) {
      const float* row = data + (i * longest + t) * dim;
      for (int64_t d = 0; d < dim; ++d) {
        sum[static_cast<size_t>(d)] += row[d];
      }
    }
    double norm = 0.0;
    for (const double x : sum) {
      norm += x * x;
    }
    const double scale = norm > 0.0 ? 1.0 / std::sqrt(norm) : 0.0;
    std::transform(sum.begin(), sum.end(), out[static_cast<size_t>(i)],
                   [&](double x) { return static_cast<float>(x * scale); });
  }
}

}  // namespace heed
