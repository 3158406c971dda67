#include "base/check.h"
#include "base/language.h"
#include "heed/io.h"
#include "models/files.h"
#include "train/task.h"
#include "train/task_config.h"

namespace heed {
namespace {

constexpr int64_t kDefaultSide = 64;  // pixels of images from files

bool is_features(const std::string& data) {
  return std::filesystem::path(data).extension() == ".safetensors";
}

/// The model's captions lie in texts[i].target; what they are of has no words.
void keep_texts(Task& task, const std::vector<std::string>& captions) {
  for (size_t i = 0; i < captions.size(); ++i) {
    task.texts.push_back({tell("image {}", i), captions[i]});
  }
}

Tokenizer caption_tokenizer(const TrainOptions& o, const std::vector<std::string>& captions) {
  return choose_tokenizer(o, "bpe:8192", captions);
}

Task region_task(const TrainOptions& o) {
  Task task;
  task.metric = TaskMetric::captions;
  const FeatureData data = load_features(o.data);
  task.tokenizer = caption_tokenizer(o, data.captions);
  Config config = fresh_config(o, chosen_arch(o, "heed-captioner"), task.tokenizer.vocab_size());
  config.set("feature_size", data.features.size(2));
  config.set("region_positions", !o.unordered_features);
  add_token_ids(config, sequence_tokens(task.tokenizer));
  task.model = start_model(o, config);
  const SequenceTokens tokens = sequence_tokens(task.tokenizer, *task.model);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    const FeatureData set = own_set ? load_features(o.validation) : data;
    const TokenShard captions = tokenize_all(set.captions, task.tokenizer);
    captions.check_vocabulary(task.model->vocab_size(), own_set ? o.validation : o.data);
    if (own_set || (o.validation.empty() && task.texts.empty())) {
      keep_texts(task, set.captions);
    }
    return make_caption_loader(set, captions, tokens, loader);
  });
  return task;
}

Task picture_task(TrainOptions o) {
  if (is_registered_dataset(o.data) && o.validation.empty() && o.validation_fraction > 0.0) {
    o.validation = o.data;  // its held-out examples
  }
  Task task;
  task.metric = TaskMetric::captions;
  const ImageData data = load_captioned_images(o.data);
  task.tokenizer = caption_tokenizer(o, data.captions);
  const ImageOptions images = image_options(o, data);
  Config config = fresh_config(o, chosen_arch(o, "vision-encoder-decoder"),
                               task.tokenizer.vocab_size(), images.size, images.channels);
  add_token_ids(config, sequence_tokens(task.tokenizer));
  if (config.has("decoder")) {  // else GPT-2's 50256
    Config decoder(config.build().at("decoder"));
    add_token_ids(decoder, sequence_tokens(task.tokenizer));
    config.set("decoder", decoder);
  }
  task.model = start_model(o, config);
  task.preprocessor = preprocessor_config(images);
  const SequenceTokens tokens = sequence_tokens(task.tokenizer, *task.model);
  add_loaders(task, o, [&](bool own_set, const LoaderOptions& loader) {
    const ImageData set = own_set ? load_captioned_images(o.validation, true) : data;
    const TokenShard captions = tokenize_all(set.captions, task.tokenizer);
    captions.check_vocabulary(task.model->vocab_size(), own_set ? o.validation : o.data);
    if (own_set || (o.validation.empty() && task.texts.empty())) {
      keep_texts(task, set.captions);
    }
    return make_caption_loader(set, images, captions, tokens, loader);
  });
  return task;
}

}  // namespace

Task make_caption_task(const TrainOptions& o) {
  const bool regions = is_features(o.data);
  if (regions != (o.arch == "heed-captioner") && !o.arch.empty()) {
    fail(ErrorKind::usage, "arch",
         "heed-captioner reads region features (FILE.safetensors); vision-encoder-decoder reads "
         "images");
  }
  Task task = regions ? region_task(o) : picture_task(o);
  check_data(task.model->kind() == ModelKind::vision_decoder, o.from,
             "a {} does not do task caption", task.model->model_type());
  return task;
}

ImageOptions image_options(const TrainOptions& o, const ImageData& data) {
  ImageOptions images;
  const bool in_memory = data.pixels.defined();
  images.size = in_memory ? data.pixels.size(2) : kDefaultSide;
  images.channels = in_memory ? data.pixels.size(1) : 3;
  if (o.from.empty()) {
    return images;
  }
  const Json config = find_model_files(o.from).config;
  const auto tower = config.find("vision_config");  // of CLIP and SigLIP
  const Json vision = tower ? *tower : config.find("encoder").value_or(config);
  constexpr int64_t kMost = 4096;
  images.size = vision.integer_or("image_size", images.size, 1, kMost);
  images.channels = vision.integer_or("num_channels", images.channels, 1, 3);
  for (const std::filesystem::path& folder :
       {std::filesystem::path(o.from), std::filesystem::path(o.from) / "model"}) {
    if (!std::filesystem::exists(folder / "preprocessor_config.json")) {
      continue;
    }
    const Json file = Json::read(folder / "preprocessor_config.json");
    auto three = [&](const char* key, std::array<double, 3>& values) {
      if (const auto found = file.find(key); found && found->is_array()) {
        for (size_t i = 0; i < std::min<size_t>(found->size(), 3); ++i) {
          values[i] = (*found)[i].number();
        }
      }
    };
    three("image_mean", images.mean);
    three("image_std", images.stddev);
  }
  return images;
}

std::string preprocessor_config(const ImageOptions& images) {
  const auto channels = static_cast<size_t>(images.channels);
  const auto first = [&](const std::array<double, 3>& values) {
    return std::vector<double>(values.begin(), values.begin() + static_cast<int64_t>(channels));
  };
  Config config;
  config.set("image_processor_type", "ViTImageProcessor");
  config.set("do_resize", true).set("do_rescale", true).set("do_normalize", true);
  config.set("size", Config().set("height", images.size).set("width", images.size));
  config.set("resample", 2);  // bilinear
  config.set("rescale_factor", 1.0 / 255.0);
  config.set("image_mean", first(images.mean)).set("image_std", first(images.stddev));
  return config.dump(2) + "\n";
}

}  // namespace heed
