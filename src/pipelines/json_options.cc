#include "pipelines/json_options.h"

namespace heed {
namespace {

constexpr int64_t kMany = int64_t{1} << 30;

RunOptions run_options(const Json& json, const RunOptions& run) {
  RunOptions result = run;
  result.batch_size = json.integer_or("batch_size", run.batch_size, 1, kMany);
  return result;
}

BeamOptions beam_options(const Json& json, BeamOptions beam) {
  beam.beams = json.integer_or("num_beams", beam.beams, 1, 1024);
  beam.n_best = json.integer_or("num_return_sequences", beam.n_best, 1, 1024);
  beam.length_penalty = json.number_or("length_penalty", beam.length_penalty, -1e3, 1e3);
  beam.early_stopping = json.boolean_or("early_stopping", beam.early_stopping);
  beam.max_tokens = json.integer_or("max_new_tokens", beam.max_tokens, 1, kMany);
  return beam;
}

}  // namespace

GenerationOptions generation_options(const Json& json, const RunOptions& run) {
  json.only({"max_new_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
             "seed", "num_return_sequences", "stop_strings", "truncation", "batch_size"});
  GenerationOptions options;
  options.max_new_tokens = json.integer_or("max_new_tokens", options.max_new_tokens, 0, kMany);
  Sampling& sampling = options.sampling;
  sampling.temperature = json.number_or("temperature", sampling.temperature, 0, 1e6);
  sampling.top_k = json.integer_or("top_k", sampling.top_k, 0, kMany);
  sampling.top_p = json.number_or("top_p", sampling.top_p, 0, 1);
  sampling.min_p = json.number_or("min_p", sampling.min_p, 0, 1);
  sampling.repetition_penalty =
      json.number_or("repetition_penalty", sampling.repetition_penalty, 0, 1e6);
  sampling.seed = static_cast<uint64_t>(
      json.integer_or("seed", static_cast<int64_t>(sampling.seed), 0, INT64_MAX));
  options.num_return_sequences = json.integer_or("num_return_sequences", 1, 1, 1024);
  if (const auto stops = json.find("stop_strings")) {
    options.stop_strings = stops->is_string() ? std::vector{stops->string()} : stops->strings();
  }
  options.truncate = json.boolean_or("truncation", options.truncate);
  options.run = run_options(json, run);
  return options;
}

TranslationOptions translation_options(const Json& json, const RunOptions& run) {
  json.only({"num_beams", "num_return_sequences", "length_penalty", "early_stopping",
             "max_new_tokens", "truncation", "batch_size", "src_lang", "tgt_lang"});
  TranslationOptions options;
  options.source_lang = json.string_or("src_lang", "");
  options.target_lang = json.string_or("tgt_lang", "");
  options.beam = beam_options(json, options.beam);
  options.truncate = json.boolean_or("truncation", options.truncate);
  options.run = run_options(json, run);
  return options;
}

ClassificationOptions classification_options(const Json& json, const RunOptions& run) {
  json.only({"top_k", "truncation", "batch_size"});
  ClassificationOptions options;
  options.top_k = json.integer_or("top_k", options.top_k, 0, kMany);
  options.truncate = json.boolean_or("truncation", options.truncate);
  options.run = run_options(json, run);
  return options;
}

TokenClassificationOptions token_classification_options(const Json& json, const RunOptions& run) {
  json.only({"aggregation_strategy", "truncation", "batch_size"});
  TokenClassificationOptions options;
  if (const auto strategy = json.find("aggregation_strategy")) {
    options.aggregate = strategy->string() == "simple";
    if (!options.aggregate && strategy->string() != "none") {
      strategy->refuse("must be \"simple\" or \"none\"");
    }
  }
  options.truncate = json.boolean_or("truncation", options.truncate);
  options.run = run_options(json, run);
  return options;
}

FillMaskOptions fill_mask_options(const Json& json, const RunOptions& run) {
  json.only({"top_k", "batch_size"});
  FillMaskOptions options;
  options.top_k = json.integer_or("top_k", options.top_k, 1, kMany);
  options.run = run_options(json, run);
  return options;
}

FeatureOptions feature_options(const Json& json, const RunOptions& run) {
  json.only({"pooling", "normalize", "truncation", "batch_size"});
  FeatureOptions options;
  if (const auto pooling = json.find("pooling")) {
    options.pooling = pooling_from_name(pooling->string());
  }
  if (json.has("normalize")) {
    options.normalize = json.boolean("normalize");
  }
  options.truncate = json.boolean_or("truncation", options.truncate);
  options.run = run_options(json, run);
  return options;
}

CaptionOptions caption_options(const Json& json, const RunOptions& run) {
  json.only({"num_beams", "num_return_sequences", "length_penalty", "early_stopping",
             "max_new_tokens", "batch_size"});
  CaptionOptions options;
  options.beam = beam_options(json, options.beam);
  options.run = run_options(json, run);
  return options;
}

SpeechOptions speech_options(const Json& json) {
  json.only({"language", "task", "return_timestamps"});
  SpeechOptions options;
  options.language = json.string_or("language", "");
  options.task = json.string_or("task", options.task);
  if (const auto times = json.find("return_timestamps"); times && times->is_string()) {
    options.word_times = times->string() == "word";
    if (!options.word_times) {
      times->refuse("must be true, false or \"word\"");
    }
  }
  return options;
}

}  // namespace heed
