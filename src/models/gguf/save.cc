#include "base/check.h"
#include "heed/io.h"
#include "heed/models.h"
#include "models/gguf/model.h"
#include "models/gguf/names.h"

namespace heed::gguf {
namespace {

/// Metadata under the architecture's name.
class Output final : public GgufOutput {
 public:
  Output(GgufWriter& writer, std::string architecture)
      : writer_(writer), architecture_(std::move(architecture)) {}
  void size(std::string_view name, int64_t value) override {
    writer_.u32(key(name), static_cast<uint32_t>(value));
  }
  void number(std::string_view name, double value) override {
    writer_.f32(key(name), static_cast<float>(value));
  }
  void string(std::string_view name, std::string_view value) override {
    writer_.string(key(name), std::string(value));
  }
  void flag(std::string_view name, bool value) override { writer_.boolean(key(name), value); }
  void tensor(std::string_view name, const Tensor& value) override {
    writer_.tensor(std::string(name), value);
  }

 private:
  /// Keys of the tokenizer are not the architecture's.
  std::string key(std::string_view name) const {
    return name.starts_with("tokenizer.") ? std::string(name)
                                          : fmt::format("{}.{}", architecture_, name);
  }

  GgufWriter& writer_;
  std::string architecture_;
};

void write_keys(const GgufSpec& spec, const Json& config, Output& out) {
  for (const GgufKey& key : spec.keys) {
    if (!config.has(key.config)) {
      check(key.otherwise != GgufKey::kRequired, "gguf", "needs {}, which config.json lacks",
            key.config);
      if (key.otherwise != GgufKey::kUnset && key.kind == GgufKey::Kind::number) {
        out.number(key.gguf, key.otherwise);
      }
      continue;
    }
    switch (key.kind) {
      case GgufKey::Kind::size:
        out.size(key.gguf, config.integer(key.config, 0, int64_t{1} << 31));
        break;
      case GgufKey::Kind::number:
        out.number(key.gguf, config.number(key.config, -1e12, 1e12));
        break;
      case GgufKey::Kind::flag:
        out.flag(key.gguf, config.boolean(key.config));
        break;
    }
  }
}

Tensor as_in_gguf(const Tensor& tensor, GgufLayout layout, const Model& model, const Json& config) {
  const int64_t heads = model.num_heads();
  switch (layout) {
    case GgufLayout::qkv_groups:
      return qkv_in_blocks(tensor, heads, model.hidden_size() / std::max<int64_t>(heads, 1));
    case GgufLayout::transposed:
      return transpose(tensor);
    case GgufLayout::query_pairs:
      return rows_in_pairs(tensor, heads);
    case GgufLayout::key_pairs:
      return rows_in_pairs(tensor, config.integer_or("num_key_value_heads", heads, 1, heads));
    case GgufLayout::plus_one:
      return add(dequantize(tensor), 1.0);
    case GgufLayout::behind_padding:
      return slice(dequantize(tensor), 0, rows_before_positions(config), tensor.size(0));
    case GgufLayout::same:
      break;
  }
  return tensor;
}

}  // namespace

void add_model(GgufWriter& writer, const Model& model, const StoredTypes& types,
               const std::function<void(int64_t done, int64_t total)>& progress) {
  const ModelSpec* spec = find_model_spec(model.model_type());
  if (spec == nullptr || spec->gguf.architecture.empty()) {
    std::vector<std::string> known;
    for (const ModelSpec* each : model_specs()) {
      if (!each->gguf.architecture.empty()) {
        known.push_back(each->model_type);
      }
    }
    fail(ErrorKind::usage, "gguf", "has no place for a {} model; it holds {}", model.model_type(),
         fmt::join(known, ", "));
  }
  const GgufSpec& gguf = spec->gguf;
  const Json& config = model.config();
  if (gguf.check_writable) {
    gguf.check_writable(config);
  }
  writer.string("general.architecture", gguf.architecture);
  writer.string("general.name", config.string_or("_name_or_path", gguf.architecture));
  writer.u32("general.file_type", types.file_type(model));
  writer.u32("general.quantization_version", 2);
  writer.string("heed.config", config.dump(2));
  Output out(writer, gguf.architecture);
  write_keys(gguf, config, out);
  if (gguf.write_config) {
    gguf.write_config(out, config, model);
  }
  std::vector<std::pair<std::string, Tensor>> tensors;
  bool tied = true;
  for (const Parameter& parameter : model.parameters()) {
    const auto name = gguf_name(gguf, parameter.name);
    check(name.has_value(), "gguf", "has no name for parameter '{}'", parameter.name);
    tensors.emplace_back(name->text,
                         as_in_gguf(parameter.tensor.detach(), name->layout, model, config));
    tied = tied && name->text != "output.weight";
  }
  int64_t done = 0;
  for (const auto& [name, tensor] : tensors) {
    writer.tensor(name, types.stored(name, tensor, model.num_layers(), tied));
    done += tensor.numel();
    if (progress) {
      progress(done, model.parameter_count());
    }
  }
}

}  // namespace heed::gguf
