#include "retrieval/embedder.h"

#include "base/check.h"
#include "base/checksum.h"
#include "data/sources.h"
#include "models/files.h"

namespace heed {
namespace {

constexpr int64_t kLongest = 8192;  // tokens, where the model has no limit of its own

}  // namespace

Embedder::Embedder(const std::string& model, const std::string& tokenizer,
                   const std::string& pooling, bool many)
    : features_(open_model(model, {.tokenizer = tokenizer, .load = {.in_memory = many}})),
      pooling_(pooling.empty() ? features_.default_pooling() : pooling_from_name(pooling)) {
  const Model& opened = *features_.loaded().model;
  if (opened.kind() != ModelKind::encoder) {
    fail(ErrorKind::usage, model,
         "an index needs a text encoder (bert, distilbert, …); this folder holds a {}",
         opened.model_type());
  }
  dimension_ = features_.dimension(pooling_);
}

std::string Embedder::fingerprint() const {
  const Model& model = *features_.loaded().model;
  const TensorMap stored = find_model_files(features_.loaded().path).tensors();
  uint64_t sum = fingerprint_of(model.model_type() + "/" + pooling());
  for (const Parameter& parameter : model.parameters()) {
    const auto found = stored.find(parameter.name);
    const Tensor tensor = (found == stored.end() ? parameter.tensor : found->second).contiguous();
    sum = fingerprint_of(parameter.name, sum);
    sum = fingerprint_of(tensor.raw(), static_cast<size_t>(tensor.bytes()), sum);
  }
  return fmt::format("{:016x}", fingerprint_of_tokenizer(tokenizer(), sum));
}

std::vector<float> Embedder::embed(std::span<const std::string> texts) const {
  const int64_t context = features_.loaded().model->context_length();
  FeatureOptions options;
  options.pooling = pooling_;
  options.normalize = pooling_ != Pooling::pooler;
  options.max_length = context > 0 ? context : kLongest;
  options.run.on_error = [](size_t, const std::string&) {};
  return features_({texts.begin(), texts.end()}, options).to_vector<float>();
}

}  // namespace heed
