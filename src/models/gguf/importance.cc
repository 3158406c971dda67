#include "base/check.h"
#include "base/parallel.h"
#include "heed/models.h"
#include "io/gguf.h"
#include "models/gguf/names.h"
#include "models/gguf/stored_types.h"

namespace heed::gguf {

ImportanceCollector::ImportanceCollector(const Model& model)
    : scope_([this](const Tensor& weight, const Tensor& input) { add(weight, input); }) {
  const ModelSpec& spec = model_spec(model);
  check(!spec.gguf.architecture.empty(), "importance", "GGUF has no names for the tensors of a {}",
        model.model_type());
  for (const Parameter& parameter : model.parameters()) {
    const auto name = gguf_name(spec.gguf, parameter.name);
    if (name && parameter.tensor.rank() == 2) {
      sums_[parameter.tensor.raw()].name = name->text;
    }
  }
}

void ImportanceCollector::add(const Tensor& weight, const Tensor& input) {
  const auto found = sums_.find(weight.raw());
  if (found == sums_.end()) {
    return;
  }
  const Tensor x = input.detach().to(DType::f32).contiguous();
  const int64_t columns = x.size(-1);
  const int64_t rows = x.numel() / std::max<int64_t>(columns, 1);
  Sums& sums = found->second;
  sums.squares.resize(static_cast<size_t>(columns), 0.0F);
  constexpr int64_t kColumns = 64;
  parallel_ranges(columns, kColumns, [&](int64_t begin, int64_t end) {
    const float* values = x.data<float>();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = begin; column < end; ++column) {
        const float value = values[row * columns + column];
        sums.squares[static_cast<size_t>(column)] += value * value;
      }
    }
  });
  sums.rows += rows;
}

void ImportanceCollector::write(const std::filesystem::path& path, const std::string& data,
                                int64_t context) const {
  GgufWriter writer;
  int64_t most = 0;
  for (const auto& [weight, sums] : sums_) {
    most = std::max(most, sums.rows);
  }
  check(most > 0, "importance", "no matrix of the model was used");
  writer.string("general.type", "imatrix");
  writer.strings("imatrix.datasets", {data});
  writer.u32("imatrix.chunk_count", static_cast<uint32_t>((most + context - 1) / context));
  writer.u32("imatrix.chunk_size", static_cast<uint32_t>(context));
  std::map<std::string, const Sums*> by_name;
  for (const auto& [weight, sums] : sums_) {
    if (sums.rows > 0) {
      by_name.emplace(sums.name, &sums);
    }
  }
  for (const auto& [name, sums] : by_name) {
    const auto columns = static_cast<int64_t>(sums->squares.size());
    writer.tensor(name + ".in_sum2", Tensor::from(sums->squares, {1, columns}));
    writer.tensor(name + ".counts",
                  Tensor::from(std::vector<float>{static_cast<float>(sums->rows)}, {1, 1}));
  }
  writer.write(path);
}

}  // namespace heed::gguf
