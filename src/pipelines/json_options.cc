#include "pipelines/json_options.h"

#include <charconv>

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
  if (const auto early = json.find("early_stopping")) {
    beam.early_stopping = early_stopping_from_name(early->is_string() ? early->string()
                                                   : early->boolean() ? "true"
                                                                      : "false");
  }
  beam.max_tokens = json.integer_or("max_new_tokens", beam.max_tokens, 1, kMany);
  return beam;
}

/// {"token id": bias}, as the server takes it.
std::vector<std::pair<int64_t, float>> logit_bias(const Json& json) {
  std::vector<std::pair<int64_t, float>> biases;
  json.for_each([&](const std::string& key, const Json& value) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      value.refuse("stands under a key that is no token id");
    }
    biases.emplace_back(id, static_cast<float>(value.number()));
  });
  return biases;
}

Sampling sampling_options(const Json& json) {
  Sampling s;
  s.temperature = json.number_or("temperature", s.temperature, 0, 1e6);
  s.top_n_sigma = json.number_or("top_n_sigma", s.top_n_sigma, 0, 1e6);
  s.top_k = json.integer_or("top_k", s.top_k, 0, kMany);
  s.top_p = json.number_or("top_p", s.top_p, 0, 1);
  s.min_p = json.number_or("min_p", s.min_p, 0, 1);
  s.typical_p = json.number_or("typical_p", s.typical_p, 0, 1);
  s.mirostat = json.integer_or("mirostat", s.mirostat, 0, 2);
  s.mirostat_tau = json.number_or("mirostat_tau", s.mirostat_tau, 0, 100);
  s.mirostat_eta = json.number_or("mirostat_eta", s.mirostat_eta, 0, 1);
  if (const auto biases = json.find("logit_bias")) {
    s.logit_bias = logit_bias(*biases);
  }
  s.repetition_penalty = json.number_or("repetition_penalty", s.repetition_penalty, 0, 1e6);
  s.frequency_penalty = json.number_or("frequency_penalty", s.frequency_penalty, -100, 100);
  s.presence_penalty = json.number_or("presence_penalty", s.presence_penalty, -100, 100);
  s.no_repeat_ngram_size =
      json.integer_or("no_repeat_ngram_size", s.no_repeat_ngram_size, 0, kMany);
  s.dry_multiplier = json.number_or("dry_multiplier", s.dry_multiplier, 0, 100);
  s.dry_base = json.number_or("dry_base", s.dry_base, 1, 100);
  s.dry_allowed_length = json.integer_or("dry_allowed_length", s.dry_allowed_length, 1, kMany);
  s.dry_range = json.integer_or("dry_range", s.dry_range, -1, kMany);
  s.seed =
      static_cast<uint64_t>(json.integer_or("seed", static_cast<int64_t>(s.seed), 0, INT64_MAX));
  return s;
}

}  // namespace

GenerationOptions generation_options(const Json& json, const RunOptions& run) {
  json.only({"max_new_tokens",
             "temperature",
             "top_n_sigma",
             "top_k",
             "top_p",
             "min_p",
             "typical_p",
             "mirostat",
             "mirostat_tau",
             "mirostat_eta",
             "logit_bias",
             "repetition_penalty",
             "frequency_penalty",
             "presence_penalty",
             "no_repeat_ngram_size",
             "dry_multiplier",
             "dry_base",
             "dry_allowed_length",
             "dry_range",
             "dry_sequence_breakers",
             "seed",
             "num_return_sequences",
             "stop_strings",
             "stop_token_ids",
             "ignore_eos",
             "truncation",
             "batch_size"});
  GenerationOptions options;
  options.max_new_tokens = json.integer_or("max_new_tokens", options.max_new_tokens, 0, kMany);
  options.sampling = sampling_options(json);
  options.num_return_sequences = json.integer_or("num_return_sequences", 1, 1, 1024);
  if (const auto stops = json.find("stop_strings")) {
    options.stop_strings = stops->is_string() ? std::vector{stops->string()} : stops->strings();
  }
  if (const auto ids = json.find("stop_token_ids")) {
    for (const int64_t id : ids->integers(0, INT32_MAX)) {
      options.stop_token_ids.push_back(static_cast<TokenId>(id));
    }
  }
  options.ignore_eos = json.boolean_or("ignore_eos", options.ignore_eos);
  if (const auto breakers = json.find("dry_sequence_breakers")) {
    options.dry_sequence_breakers = breakers->strings();
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

ZeroShotOptions zero_shot_options(const Json& json, const RunOptions& run) {
  json.only({"candidate_labels", "hypothesis_template", "top_k", "batch_size"});
  ZeroShotOptions options;
  if (const auto labels = json.find("candidate_labels")) {
    if (!labels->is_array()) {
      labels->refuse("must be a list of texts");
    }
    for (size_t i = 0; i < labels->size(); ++i) {
      options.labels.push_back((*labels)[i].string());
    }
  }
  options.hypothesis_template = json.string_or("hypothesis_template", options.hypothesis_template);
  options.top_k = json.integer_or("top_k", options.top_k, 0, kMany);
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
