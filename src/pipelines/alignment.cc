#include "pipelines/alignment.h"

#include <algorithm>

#include "heed/inspect.h"
#include "heed/tensor.h"

namespace heed {

std::vector<std::vector<double>> soft_alignment(const Model& model, const ModelInput& source,
                                                int64_t start, const std::vector<int64_t>& target,
                                                int64_t layer) {
  const NoGrad no_grad;
  std::vector<int64_t> fed{start};
  fed.insert(fed.end(), target.begin(), target.end());
  fed.pop_back();  // row i is the attention from which token i was written
  ModelInput input = source;
  input.decoder_input_ids = Tensor::from(fed, {1, static_cast<int64_t>(fed.size())});
  input.want_logits = false;
  RecorderOptions wanted;
  wanted.kind = "cross";
  Recorder recorder(wanted);
  model.forward(input);
  int64_t layers = 0;
  for (const RecordedAttention& each : recorder.attentions()) {
    layers = std::max(layers, each.place.layer + 1);
  }
  const RecordedAttention& cross =
      recorder.at("cross", layer >= 0 ? layer : std::max<int64_t>(0, layers - 2));
  std::vector<std::vector<double>> rows(static_cast<size_t>(cross.queries()),
                                        std::vector<double>(static_cast<size_t>(cross.keys())));
  for (int64_t head = 0; head < cross.heads(); ++head) {
    const std::vector<double> weights =
        cross.pooled(0, head, cross.queries(), cross.keys()).to_doubles();
    for (size_t q = 0; q < rows.size(); ++q) {
      for (size_t k = 0; k < rows[q].size(); ++k) {
        rows[q][k] += weights[q * rows[q].size() + k] / static_cast<double>(cross.heads());
      }
    }
  }
  return rows;
}

}  // namespace heed
