#include <algorithm>
#include <array>

#include "base/check.h"
#include "io/json_writer.h"
#include "pipelines/batches.h"
#include "pipelines/json_options.h"

namespace heed {
namespace {

/// One task: its names and how it is opened.
struct Task {
  std::string_view name;
  std::string_view alias;  ///< a second name of Hugging Face's, or empty
  Pipeline::Any (*open)(LoadedModel);
};

template <class P>
Pipeline::Any opened(LoadedModel model) {
  return P(std::move(model));
}

constexpr std::array kTasks{
    Task{TextGeneration::kTask, "", opened<TextGeneration>},
    Task{Translation::kTask, "text2text-generation", opened<Translation>},
    Task{TextClassification::kTask, "sentiment-analysis", opened<TextClassification>},
    Task{TokenClassification::kTask, "ner", opened<TokenClassification>},
    Task{FillMask::kTask, "", opened<FillMask>},
    Task{FeatureExtraction::kTask, "", opened<FeatureExtraction>},
    Task{ImageClassification::kTask, "", opened<ImageClassification>},
    Task{ZeroShotImageClassification::kTask, "", opened<ZeroShotImageClassification>},
    Task{ImageToText::kTask, "image-captioning", opened<ImageToText>},
    Task{SpeechRecognition::kTask, "", opened<SpeechRecognition>},
};

// Results as Hugging Face's pipelines return them, one entry per input.

void write(JsonWriter& out, const std::vector<LabelScore>& scores) {
  out.begin_array();
  for (const LabelScore& each : scores) {
    out.begin_object().field("label", each.label).field("score", each.score).end_object();
  }
  out.end_array();
}

void write(JsonWriter& out, const std::vector<ScoredText>& texts, std::string_view field) {
  out.begin_array();
  for (const ScoredText& each : texts) {
    out.begin_object().field(field, each.text).field("score", each.score).end_object();
  }
  out.end_array();
}

void run(const TextGeneration& generate, const std::vector<std::string>& inputs,
         const Json& options, const RunOptions& run, JsonWriter& out) {
  const auto results = generate(inputs, generation_options(options, run));
  for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
    out.begin_array();
    for (; next < results.size() && results[next].input == i; ++next) {
      out.begin_object().field("generated_text", results[next].text).end_object();
    }
    out.end_array();
  }
}

void run(const Translation& translate, const std::vector<std::string>& inputs, const Json& options,
         const RunOptions& run, JsonWriter& out) {
  for (const auto& each : translate(inputs, translation_options(options, run))) {
    write(out, each, "translation_text");
  }
}

void run(const TextClassification& classify, const std::vector<std::string>& inputs,
         const Json& options, const RunOptions& run, JsonWriter& out) {
  for (const auto& each : classify(inputs, classification_options(options, run))) {
    write(out, each);
  }
}

void run(const TokenClassification& classify, const std::vector<std::string>& inputs,
         const Json& options, const RunOptions& run, JsonWriter& out) {
  const TokenClassificationOptions chosen = token_classification_options(options, run);
  for (const auto& spans : classify(inputs, chosen)) {
    out.begin_array();
    for (const LabelledSpan& each : spans) {
      out.begin_object().field(chosen.aggregate ? "entity_group" : "entity", each.label);
      out.field("score", each.score).field("index", each.position).field("word", each.text);
      out.field("start", each.span.begin).field("end", each.span.end).end_object();
    }
    out.end_array();
  }
}

void run(const FillMask& fill, const std::vector<std::string>& inputs, const Json& options,
         const RunOptions& run, JsonWriter& out) {
  for (const auto& masks : fill(inputs, fill_mask_options(options, run))) {
    out.begin_array();
    for (const MaskedToken& mask : masks) {
      out.begin_array();
      for (const MaskCandidate& each : mask.candidates) {
        out.begin_object().field("score", each.probability).field("token", each.id);
        out.field("token_str", each.token).end_object();
      }
      out.end_array();
    }
    out.end_array();
  }
}

void run(const FeatureExtraction& extract, const std::vector<std::string>& inputs,
         const Json& options, const RunOptions& run, JsonWriter& out) {
  const Tensor features = extract(inputs, feature_options(options, run));
  for (int64_t i = 0; i < features.size(0); ++i) {
    out.value(features[i].to_doubles());
  }
}

void run(const ImageClassification& classify, const std::vector<std::string>& inputs,
         const Json& options, const RunOptions& run, JsonWriter& out) {
  const std::vector<std::filesystem::path> images(inputs.begin(), inputs.end());
  for (const auto& each : classify(images, classification_options(options, run))) {
    write(out, each);
  }
}

void run(const ZeroShotImageClassification& classify, const std::vector<std::string>& inputs,
         const Json& options, const RunOptions& run, JsonWriter& out) {
  const std::vector<std::filesystem::path> images(inputs.begin(), inputs.end());
  for (const auto& each : classify(images, zero_shot_options(options, run))) {
    write(out, each);
  }
}

void run(const ImageToText& describe, const std::vector<std::string>& inputs, const Json& options,
         const RunOptions& run, JsonWriter& out) {
  const CaptionOptions chosen = caption_options(options, run);
  for (const std::string& image : inputs) {
    out.begin_array();
    for (const auto& each : describe(describe.inputs_of(image), chosen)) {
      write(out, each, "generated_text");
    }
    out.end_array();
  }
}

void run(const SpeechRecognition& transcribe, const std::vector<std::string>& inputs,
         const Json& options, const RunOptions&, JsonWriter& out) {
  const SpeechOptions chosen = speech_options(options);
  const bool words = chosen.word_times;
  for (const std::string& audio : inputs) {
    const Transcript transcript = transcribe(audio, chosen);
    out.begin_object().field("text", transcript.text).key("chunks").begin_array();
    auto chunk = [&](const std::string& text, double start, double end) {
      out.begin_object().field("text", text).field("timestamp", std::vector<double>{start, end});
      out.end_object();
    };
    for (const SpokenSegment& each : transcript.segments) {
      if (!words) {
        chunk(each.text, each.start, each.end);
      }
      for (const SpokenWord& word : each.words) {
        chunk(word.text, word.start, word.end);
      }
    }
    out.end_array().end_object();
  }
}

}  // namespace

std::string_view Pipeline::task() const {
  return std::visit([](const auto& p) { return std::decay_t<decltype(p)>::kTask; }, any_);
}

const LoadedModel& Pipeline::loaded() const {
  return std::visit([](const auto& p) -> const LoadedModel& { return p.loaded(); }, any_);
}

Json Pipeline::operator()(const std::vector<std::string>& inputs, const Json& options,
                          const RunOptions& controls) const {
  JsonWriter out;
  out.begin_array();
  std::visit([&](const auto& p) { run(p, inputs, options, controls, out); }, any_);
  return Json::parse(out.end_array().take(), std::string(task()));
}

Json Pipeline::operator()(const std::vector<std::string>& inputs,
                          const RunOptions& controls) const {
  return (*this)(inputs, Json::parse("{}", "options"), controls);
}

void Pipeline::wrong_task(std::string_view wanted) const {
  fail(ErrorKind::usage, "pipeline", "this is a `{}` pipeline, not `{}`", task(), wanted);
}

Pipeline pipeline(std::string_view task, const std::filesystem::path& model,
                  const OpenOptions& options) {
  for (const Task& each : kTasks) {
    if (task == each.name || (!each.alias.empty() && task == each.alias)) {
      return Pipeline(each.open(open_model(model, options)));
    }
  }
  fail(ErrorKind::usage, "pipeline", "there is no task '{}'; use {}", task,
       fmt::join(pipeline_tasks(), ", "));
}

std::vector<std::string> pipeline_tasks() {
  std::vector<std::string> names;
  names.reserve(kTasks.size());
  for (const Task& each : kTasks) {
    names.emplace_back(each.name);
  }
  return names;
}

}  // namespace heed
