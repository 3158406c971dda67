#include "train/task.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/language.h"
#include "dist/communicator.h"
#include "train/conversations.h"
#include "train/task_config.h"

namespace heed {
namespace {

Task language_task(const TrainOptions& o, bool masked) {
  Task task;
  const std::string arch = chosen_arch(o, masked ? "bert" : "gpt2");
  task.tokenizer = choose_tokenizer(o, usual_tokenizer(arch), read_texts(o.data));
  const int64_t vocabulary = task.tokenizer.vocab_size();
  const int64_t padding = sequence_tokens(task.tokenizer).padding;
  Config config = fresh_config(o, arch, vocabulary, 0, 3, padding);
  const SpecialTokens& special = task.tokenizer.special();
  if (special.eos) {
    config.set("eos_token_id", *special.eos);
    // As in GPT-2. Left out, Hugging Face takes 50256, which a small vocabulary does not have.
    config.set("bos_token_id", first_of({special.bos}, *special.eos));
  }
  // The data comes first: a model for a context that the text cannot fill would be built in vain.
  const TokenShard train_text = load_text(o.data, task.tokenizer);
  check_data(!o.from.empty() || train_text.tokens() >= o.context, o.data,
             "has {} tokens, fewer than a context of {}; give more text or a smaller context",
             train_text.tokens(), o.context);
  task.model = start_model(o, config, masked);
  const ModelKind kind = task.model->kind();
  check_data(kind == (masked ? ModelKind::encoder : ModelKind::decoder), o.from,
             "a {} does not do task {}", task.model->model_type(), o.task);
  Masking masking;
  if (masked) {
    check_data(special.mask.has_value(), "tokenizer", "has no [MASK] token, which task mlm needs");
    masking.mask = *special.mask;
    masking.vocabulary = vocabulary;
    masking.first = first_of({special.cls}, -1);
    masking.last = first_of({special.sep}, -1);
    for (const auto& id : {special.cls, special.sep, special.pad, special.mask, special.unk}) {
      if (id) {
        masking.keep.push_back(*id);
      }
    }
  }
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    const TokenShard text = own_set ? load_text(o.validation, task.tokenizer) : train_text;
    text.check_vocabulary(task.model->vocab_size(), own_set ? o.validation : o.data);
    return masked ? make_mlm_loader(text, loader.max_length, masking, loader)
                  : make_lm_loader(text, loader.max_length, loader);
  });
  return task;
}

Task translate_task(const TrainOptions& o) {
  const std::string arch = chosen_arch(o, "heed-seq2seq");
  std::vector<TextPair> pairs = read_pairs(o.data);
  std::vector<std::string> texts;
  for (const TextPair& pair : pairs) {
    texts.push_back(pair.source);
    texts.push_back(pair.target);
  }
  Task task;
  task.metric = TaskMetric::translation;
  task.tokenizer = choose_tokenizer(o, "bpe:8192", texts);
  Config config = fresh_config(o, arch, task.tokenizer.vocab_size());
  config.set("decoder_vocab_size", task.tokenizer.vocab_size());
  config.set("share_encoder_decoder_embeddings", true);
  add_token_ids(config, sequence_tokens(task.tokenizer));
  task.model = start_model(o, config);
  check_data(task.model->kind() == ModelKind::encoder_decoder, o.from,
             "a {} does not do task translate", task.model->model_type());
  const SequenceTokens tokens = sequence_tokens(task.tokenizer, *task.model);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    const std::string& data = own_set ? o.validation : o.data;
    const PairData set = load_pairs(data, task.tokenizer, task.tokenizer);
    set.source.check_vocabulary(task.model->vocab_size(), data);
    set.target.check_vocabulary(task.model->vocab_size(), data);
    return make_pair_loader(set, tokens, loader);
  });
  if (task.validation) {
    task.texts = o.validation.empty() ? std::move(pairs) : read_pairs(o.validation);
  }
  return task;
}

Task classify_task(const TrainOptions& o) {
  const std::string arch = chosen_arch(o, "heed-sentiment");
  std::vector<std::string> texts;
  for (LabelledText& row : read_labelled(o.data)) {
    texts.push_back(std::move(row.text));
  }
  Task task;
  task.metric = TaskMetric::classes;
  task.tokenizer = choose_tokenizer(o, usual_tokenizer(arch), texts);
  const LabelledData data = load_labelled(o.data, task.tokenizer);
  task.labels = data.labels;
  const int64_t vocabulary = task.tokenizer.vocab_size();
  const int64_t padding = sequence_tokens(task.tokenizer).padding;
  Config config = fresh_config(o, arch, vocabulary, 0, 3, padding);
  add_labels(config, data.labels);
  task.model = start_model(o, config, true);
  check_data(task.model->kind() == ModelKind::encoder, o.from, "a {} does not do task classify",
             task.model->model_type());
  data.text.check_vocabulary(task.model->vocab_size(), o.data);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    return make_class_loader(
        own_set ? load_labelled(o.validation, task.tokenizer, data.labels) : data,
        sequence_tokens(task.tokenizer), loader);
  });
  return task;
}

Task image_task(const TrainOptions& o) {
  const std::string arch = chosen_arch(o, "vit");
  Task task;
  task.metric = TaskMetric::classes;
  const ImageData data = load_image_classes(o.data);
  task.labels = data.labels;
  const ImageOptions images = image_options(o, data);
  Config config = fresh_config(o, arch, 0, images.size, images.channels);
  add_labels(config, data.labels);
  task.model = start_model(o, config, true);
  check_data(task.model->kind() == ModelKind::vision, o.from,
             "a {} does not do task image-classify", task.model->model_type());
  task.preprocessor = preprocessor_config(images);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    const ImageData set = own_set ? load_image_classes(o.validation, "t10k") : data;
    check_data(set.labels == data.labels, o.validation, "has other classes than {}", o.data);
    return make_image_loader(set, images, loader);
  });
  return task;
}

/// Mean and standard stddev (1 where all numbers are the same).
std::pair<double, double> mean_and_scale(const Tensor& numbers) {
  const std::vector<double> values = numbers.to_doubles();
  double sum = 0.0, squares = 0.0;
  for (const double value : values) {
    sum += value;
  }
  const auto count = static_cast<double>(std::max<size_t>(values.size(), 1));
  for (const double value : values) {
    squares += (value - sum / count) * (value - sum / count);
  }
  const double stddev = std::sqrt(squares / count);
  return {sum / count, stddev > 0.0 ? stddev : 1.0};
}

Task regress_task(TrainOptions o) {
  Task task;
  task.metric = TaskMetric::numbers;
  const NumberData data = load_numbers(o.data);
  if (data.input.size(0) < 2) {
    o.validation_fraction = 0.0;  // the tutorial's one example: nothing can be held out
  }
  o.batch = std::min(o.batch, data.input.size(0));  // no example twice in a step
  Config config = fresh_config(o, chosen_arch(o, "heed-regressor"), 1);
  config.set("input_size", 1).set("output_size", 1);
  const auto [input_mean, input_scale] = mean_and_scale(data.input);
  const auto [output_mean, output_scale] = mean_and_scale(data.target);
  config.set("input_mean", input_mean).set("input_scale", input_scale);
  config.set("output_mean", output_mean).set("output_scale", output_scale);
  task.model = start_model(o, config);
  check_data(task.model->kind() == ModelKind::regressor, o.from, "a {} does not do task regress",
             task.model->model_type());
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    return make_number_loader(own_set ? load_numbers(o.validation) : data, loader);
  });
  return task;
}

}  // namespace

Tokenizer choose_tokenizer(const TrainOptions& o, const std::string& otherwise,
                           const std::vector<std::string>& texts) {
  if (o.tokenizer.empty() && !o.from.empty()) {
    const std::filesystem::path base = base_model_path(o.from);
    return Tokenizer::load(std::filesystem::is_directory(base / "model") ? base / "model" : base);
  }
  const std::string kind = o.tokenizer.empty() ? otherwise : o.tokenizer;
  if (std::filesystem::exists(kind)) {
    return Tokenizer::load(kind);
  }
  check_data(
      std::any_of(texts.begin(), texts.end(), [](const auto& text) { return !text.empty(); }),
      o.data, "has no text to learn a tokenizer from");
  TokenizerTraining training = parse_tokenizer_kind(kind);
  if (o.vocab > 0) {
    training.vocab_size = o.vocab;
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return train_tokenizer(std::span<const std::string_view>(views), training);
}

LoaderOptions loader_options(const TrainOptions& o, const Model& model, bool validation) {
  LoaderOptions options;
  options.batch = o.batch;
  options.seed = o.seed;
  options.max_length =
      model.context_length() > 0 ? std::min(o.context, model.context_length()) : o.context;
  options.shuffle = !validation;
  if (!validation) {  // validation batches are shared out whole
    options.rank = world().rank();
    options.ranks = world().size();
  }
  if (o.validation.empty() && o.validation_fraction > 0.0) {
    options.validation = o.validation_fraction;
    options.part = validation ? Part::validation : Part::train;
  }
  return options;
}

Task make_task(const TrainOptions& o) {
  if (o.task == "lm" && has_conversations(o.data)) {
    return make_chat_task(o);
  }
  if (o.task == "preference") {
    return make_preference_task(o);
  }
  if (o.task == "lm" || o.task == "mlm") {
    return language_task(o, o.task == "mlm");
  }
  if (o.task == "translate") {
    return translate_task(o);
  }
  if (o.task == "classify") {
    return classify_task(o);
  }
  if (o.task == "image-classify") {
    return image_task(o);
  }
  if (o.task == "caption") {
    return make_caption_task(o);
  }
  if (o.task == "transcribe") {
    return make_speech_task(o);
  }
  if (o.task == "embed") {
    return make_embed_task(o);
  }
  if (o.task == "fid") {
    return make_fid_task(o);
  }
  if (o.task == "regress") {
    return regress_task(o);
  }
  fail(ErrorKind::usage, "task",
       "'{}' is not known; use lm, mlm, preference, translate, classify, image-classify, caption, "
       "embed, fid, transcribe "
       "or regress",
       o.task);
}

std::string describe(const Task& task, int64_t steps) {
  int64_t trained = 0;
  for (const Parameter& parameter : task.model->trainable_parameters()) {
    trained += parameter.tensor.requires_grad() ? parameter.tensor.numel() : 0;
  }
  const int64_t all = task.model->parameter_count();
  return tell("model: {} with {} parameters{}; {} examples, {} for validation; {} steps",
              task.model->model_type(), all,
              trained == all ? std::string() : tell(", {} of them trained", trained),
              task.train->examples(), task.validation ? task.validation->examples() : 0, steps);
}

ModelInput to_input(const Batch& batch, const TrainOptions& options, bool training) {
  ModelInput input = batch;
  input.training = training;
  input.skip_padding = true;
  input.want_logits = false;
  input.label_smoothing = training ? options.label_smoothing : 0.0;
  return input;
}

}  // namespace heed
