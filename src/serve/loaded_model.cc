#include "serve/loaded_model.h"

#include <future>

#include "base/background.h"
#include "base/check.h"
#include "base/folder_entries.h"
#include "heed/generate.h"
#include "heed/io.h"
#include "models/common.h"
#include "pipelines/batches.h"
#include "pipelines/sentence_modules.h"

namespace heed::serve {
namespace fs = std::filesystem;
namespace {

/// Refuses a model whose weights are larger than what this process may use.
void check_fits(const fs::path& path) {
  double bytes = 0.0;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const fs::path& entry : folder_entries(path)) {
      const std::string extension = entry.extension();
      const uintmax_t size = fs::file_size(entry, ignored);
      if (!ignored && (extension == ".safetensors" || extension == ".bin")) {
        bytes += static_cast<double>(size);
      }
    }
  } else if (fs::is_regular_file(path, ignored)) {
    bytes = static_cast<double>(fs::file_size(path, ignored));
  }
  const double limit = memory_limit();
  check_data(bytes <= limit, path.native(),
             "holds {:.3g} GB of weights; this process may use {:.3g} GB of memory", bytes * 1e-9,
             limit * 1e-9);
}

std::vector<std::string> label_names(const Json& config, int64_t count) {
  const std::optional<Json> labels = config.find("id2label");
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    const std::string id = std::to_string(i);
    const auto name = labels && labels->is_object() ? labels->find(id) : std::nullopt;
    names.push_back(name && name->is_string() ? name->string() : "LABEL_" + id);
  }
  return names;
}

/// What comes out of a pass over two tokens tells which head a text encoder has.
void probe_encoder(LoadedModel& loaded, const Json& config) {
  const NoGrad no_grad;
  if (model_spec(*loaded.model).points_at_tokens) {
    return;  // it points at a word of a text about a question: only the explorer asks such
  }
  const GenerationTokens ids = generation_tokens(*loaded.model);
  ModelInput input;  // some read their answer at the end of a text
  input.input_ids = Tensor::zeros({1, 2}, DType::i64);
  input.input_ids.data<int64_t>()[1] = ids.end.empty() ? 0 : ids.end.front();
  const ModelOutput output = loaded.model->forward(input);
  loaded.abilities.embed = output.last_hidden_state.defined();
  if (!output.logits.defined()) {
    return;
  }
  if (output.logits.rank() == 2) {
    loaded.abilities.classify = true;
    loaded.labels = label_names(config, output.logits.size(1));
    loaded.multi_label = config.string_or("problem_type", "single_label_classification") ==
                         "multi_label_classification";
  } else {
    loaded.abilities.fill_mask = output.logits.size(2) == loaded.model->vocab_size();
  }
}

void find_abilities(LoadedModel& loaded) {
  const Json& config = loaded.model->config();
  Abilities& can = loaded.abilities;
  switch (loaded.model->kind()) {
    case ModelKind::decoder:
      can.generate = true;
      break;
    case ModelKind::encoder:
      probe_encoder(loaded, config);
      break;
    case ModelKind::encoder_decoder:
      can.translate = can.generate = true;
      break;
    case ModelKind::vision:
      if (const auto labels = config.find("id2label"); labels && labels->is_object()) {
        can.classify_image = true;
        loaded.labels = label_names(config, static_cast<int64_t>(labels->size()));
      }
      break;
    case ModelKind::vision_decoder:
      can.caption = !model_spec(*loaded.model).reads_features;
      break;
    case ModelKind::speech_decoder:
      can.transcribe = true;
      break;
    default:
      break;
  }
}

}  // namespace

std::vector<std::string> Abilities::tasks() const {
  std::vector<std::string> names;
  const auto add = [&](bool can, const char* name) {
    if (can) {
      names.emplace_back(name);
    }
  };
  add(generate && !translate, "text-generation");
  add(translate, "translation");
  add(embed, "feature-extraction");
  add(classify, "text-classification");
  add(fill_mask, "fill-mask");
  add(classify_image, "image-classification");
  add(caption, "image-to-text");
  add(transcribe, "automatic-speech-recognition");
  return names;
}

LoadedModelPtr open_served_model(const std::string& name, const fs::path& path,
                                 const fs::path& tokenizer, DType kv_type, const fs::path& adapter,
                                 int64_t context_limit) {
  check_data(fs::exists(path), path.native(), "does not exist");
  auto loaded = std::make_shared<LoadedModel>();
  loaded->name = name;
  loaded->path = path;
  loaded->loaded_at = std::time(nullptr);
  loaded->context_limit = context_limit;
  fs::path folder = base_model_path(path);
  if (fs::exists(folder / "model" / "config.json")) {
    folder /= "model";  // a run folder
  }
  check_fits(folder);
  const fs::path source = tokenizer.empty() ? folder : tokenizer;
  // Side by side: each takes tens of milliseconds with a file of the usual size.
  std::future<Tokenizer> reading = run_in_background([&source] { return Tokenizer::load(source); });
  std::unique_ptr<Model> model = load_model(path, {.in_memory = true, .adapter = adapter});
  const ModelKind kind = model->kind();
  if (kind == ModelKind::decoder || kind == ModelKind::encoder_decoder ||
      kind == ModelKind::vision_decoder) {
    model->set_kv_type(kv_type);
  }
  loaded->model = std::move(model);
  if (kind == ModelKind::vision || kind == ModelKind::regressor) {
    try {
      reading.get();
    } catch (const Error&) {  // it reads no text: none is needed
    }
  } else {
    loaded->tokenizer = reading.get();
    const int64_t rows = loaded->model->vocab_size();
    check_data(rows == 0 || loaded->tokenizer.vocab_size() <= rows, source.native(),
               "the tokenizer has {} tokens, the model {} embedding rows; they do not belong "
               "together",
               loaded->tokenizer.vocab_size(), rows);
    loaded->ids = generation_tokens(*loaded->model);
    loaded->chat_template = ChatTemplate::find(folder);
  }
  find_abilities(*loaded);
  if (loaded->abilities.embed && fs::is_directory(folder)) {
    loaded->pooling = read_sentence_modules(folder).pooling;
  }
  return loaded;
}

const TokenTable& LoadedModel::token_table() const {
  std::call_once(table_made_, [this] { table_.emplace(tokenizer); });
  return *table_;
}

std::string served_name(const fs::path& path) {
  fs::path plain = path.lexically_normal();
  if (!plain.has_filename()) {
    plain = plain.parent_path();  // folder/
  }
  if (plain.filename() == "model" && plain.has_parent_path() &&
      plain.parent_path().has_filename()) {
    plain = plain.parent_path();
  }
  if (plain.filename() == "." || plain.filename().empty()) {
    plain = fs::absolute(plain).lexically_normal();
    plain = plain.has_filename() ? plain : plain.parent_path();
  }
  const std::string extension = plain.extension();
  return extension == ".gguf" || extension == ".bin" ? plain.stem() : plain.filename();
}

}  // namespace heed::serve
