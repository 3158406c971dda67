#include "base/check.h"
#include "base/utf8.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/ops.h"
#include "models/gguf/model.h"
#include "models/gguf/names.h"
#include "models/rope_gguf.h"

namespace heed::gguf {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 24;

/// Metadata of one architecture by the ends of its keys.
class Metadata final : public GgufMetadata {
 public:
  Metadata(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const override { return file_.has(key(name)); }
  int64_t size(std::string_view name) const { return file_.integer(key(name), 1, kMaxSize); }
  int64_t size(std::string_view name, int64_t otherwise) const override {
    return file_.integer_or(key(name), otherwise, 0, kMaxSize);
  }
  bool flag(std::string_view name) const { return file_.boolean(key(name)); }
  double number(std::string_view name, double otherwise) const override {
    return file_.number_or(key(name), otherwise, 0.0, 1e12);
  }
  std::string string(std::string_view name, std::string_view otherwise) const override {
    return file_.string_or(key(name), otherwise);
  }
  bool has_tensor(std::string_view name) const override {
    return file_.tensors().find(name) != file_.tensors().end();
  }
  int64_t rows(std::string_view tensor) const override {
    const auto found = file_.tensors().find(tensor);
    check_data(found != file_.tensors().end() && found->second.rank() == 2, file_.file(),
               "tensor {} is missing or no matrix", quote(tensor));
    return found->second.size(0);
  }
  std::vector<double> values(std::string_view tensor) const override {
    const auto found = file_.tensors().find(tensor);
    check_data(found != file_.tensors().end(), file_.file(), "tensor {} is missing", quote(tensor));
    return dequantize(found->second).to_doubles();
  }
  const std::string& file() const override { return file_.file(); }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

/// The values of config.json that the table of keys names.
void read_keys(const GgufSpec& spec, const Metadata& from, JsonBuilder& config) {
  for (const GgufKey& key : spec.keys) {
    const bool required = key.otherwise == GgufKey::kRequired;
    if (!required && !from.has(key.gguf)) {
      if (key.otherwise == GgufKey::kUnset) {
        continue;
      }
      if (key.kind == GgufKey::Kind::size) {
        config.set(key.config, static_cast<int64_t>(key.otherwise));
      } else {
        config.set(key.config, key.otherwise);
      }
      continue;
    }
    switch (key.kind) {
      case GgufKey::Kind::size:
        config.set(key.config, from.size(key.gguf));
        break;
      case GgufKey::Kind::number:
        config.set(key.config, from.number(key.gguf, key.otherwise));
        break;
      case GgufKey::Kind::flag:
        config.set(key.config, from.flag(key.gguf));
        break;
    }
  }
}

/// The ids of the vocabulary's special tokens, where the configuration does not say them.
void add_token_ids(const GgufFile& file, JsonBuilder& config) {
  const std::pair<const char*, const char*> ids[] = {
      {"tokenizer.ggml.bos_token_id", "bos_token_id"},
      {"tokenizer.ggml.eos_token_id", "eos_token_id"},
      {"tokenizer.ggml.padding_token_id", "pad_token_id"},
  };
  for (const auto& [key, name] : ids) {
    if (file.has(key)) {
      config.set_default(name, file.integer(key, 0, kMaxSize));
    }
  }
}

/// config.json as heed put it into the file.
Json own_config(const GgufFile& file) {
  constexpr const char* kOwn = "heed.config";
  Json own = Json::parse(file.has(kOwn) ? file.string(kOwn) : "{}", file.file());
  check_data(own.is_object(), file.file(), "{} is no JSON object", kOwn);
  return own;
}

/// The model type of a file: one whose GGUF architecture it is and whose `matches` agrees.
const ModelSpec& spec_of(const GgufFile& file, const Json& own) {
  const std::string architecture = file.string("general.architecture");
  const Metadata metadata(file, architecture);
  const ModelSpec* plain = nullptr;
  std::vector<std::string> known;
  for (const ModelSpec* spec : model_specs()) {
    if (spec->gguf.architecture.empty()) {
      continue;
    }
    if (known.empty() || known.back() != spec->gguf.architecture) {
      known.push_back(spec->gguf.architecture);
    }
    if (spec->gguf.architecture != architecture) {
      continue;
    }
    if (spec->gguf.matches == nullptr) {
      plain = spec;
    } else if (spec->gguf.matches(metadata, own)) {
      return *spec;
    }
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  check_data(plain != nullptr, file.file(),
             "general.architecture {} is not supported; heed knows {}", quote(architecture),
             fmt::join(known, ", "));
  return *plain;
}

/// heed's own configuration, overruled by what the file's metadata says.
Json config_of(const GgufFile& file, const ModelSpec& spec, const Json& own) {
  const Metadata from(file, spec.gguf.architecture);
  JsonBuilder config(own);
  config.set("model_type", spec.model_type);
  read_keys(spec.gguf, from, config);
  config.set("vocab_size", from.rows("token_embd.weight"));
  if (spec.gguf.read_config) {
    spec.gguf.read_config(from, config);
  }
  for (const ModelHead& head : spec.heads) {
    if (head.task == "text-generation" || spec.kind != ModelKind::decoder) {
      const bool bare = spec.kind != ModelKind::decoder && !head.task.empty();
      if (!bare) {
        config.set_default("architectures", std::vector<std::string>{head.architecture});
      }
    }
  }
  add_token_ids(file, config);
  return config.build(file.file());
}

struct Heads {
  int64_t queries, keys, hidden_size;
  int64_t front;  // rows of positions that GGUF lacks
};

/// Under the names of any family.
Heads heads_of(const Json& config) {
  const auto first = [&](std::initializer_list<const char*> names, int64_t otherwise) {
    for (const char* name : names) {
      if (config.has(name)) {
        return config.integer(name, 1, kMaxSize);
      }
    }
    return otherwise;
  };
  const int64_t queries = first({"num_attention_heads", "n_head"}, 1);
  return {queries, first({"num_key_value_heads"}, queries),
          first({"hidden_size", "n_embd", "n_embed"}, 0), rows_before_positions(config)};
}

Tensor as_in_checkpoint(const Tensor& tensor, GgufLayout layout, const Heads& heads) {
  switch (layout) {
    case GgufLayout::qkv_groups:
      return qkv_in_groups(tensor, heads.queries, heads.hidden_size / heads.queries);
    case GgufLayout::transposed:
      return tensor.rank() == 2 ? transpose(tensor) : tensor;
    case GgufLayout::query_pairs:
      return rows_in_halves(tensor, heads.queries);
    case GgufLayout::key_pairs:
      return rows_in_halves(tensor, heads.keys);
    case GgufLayout::plus_one:
      return add(dequantize(tensor), -1.0);
    case GgufLayout::behind_padding:
      return concat({Tensor::zeros({heads.front, tensor.size(-1)}), dequantize(tensor)}, 0);
    case GgufLayout::same:
      break;
  }
  return tensor;
}

/// By the checkpoint's names; names that mean nothing stay, so that the model's error lists them.
TensorMap tensors_of(const GgufFile& file, const GgufSpec& spec, const Json& config) {
  const Heads heads = heads_of(config);
  TensorMap tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    if (is_gguf_rope(name)) {
      continue;  // in the configuration
    }
    const auto known = checkpoint_name(spec, name);
    const bool paired = known && (known->layout == GgufLayout::query_pairs ||
                                  known->layout == GgufLayout::key_pairs);
    const int64_t groups =
        !known || known->layout == GgufLayout::query_pairs ? heads.queries : heads.keys;
    check_data(!paired || (tensor.rank() > 0 && tensor.size(0) % (2 * groups) == 0), file.file(),
               "tensor {} {} is not {} heads of an even size", quote(name), tensor.shape(), groups);
    tensors.emplace(known ? known->text : name,
                    known ? as_in_checkpoint(tensor, known->layout, heads) : tensor);
  }
  return tensors;
}

}  // namespace

ModelFiles model_files(const std::filesystem::path& path) {
  const auto file = std::make_shared<GgufFile>(path);
  const Json own = own_config(*file);
  const ModelSpec& spec = spec_of(*file, own);
  const Json config = config_of(*file, spec, own);
  return {.config = config,
          .weights_name = file->file(),
          .tensors = [file, &spec, config] { return tensors_of(*file, spec.gguf, config); },
          .stored_name =
              [&spec](const std::string& name) {
                const auto known = gguf_name(spec.gguf, name);
                return known ? known->text : name;
              }};
}

}  // namespace heed::gguf
