#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heed/image_pipelines.h"
#include "heed/json.h"
#include "heed/speech.h"
#include "heed/text_pipelines.h"

// Pipelines run a model on texts or images, from opening it to readable results, under Hugging
// Face's task names:
//
//   auto generate = heed::pipeline<TextGeneration>("gpt2");
//   generate("The meaning of life is", {.max_new_tokens = 50}, [](std::string_view piece) {
//     std::cout << piece;
//   });
//
// A pipeline is a cheap handle: copies share the model. Calls are const and may come from many
// threads at once; what a call returns does not depend on the others, nor on how its inputs were
// batched.

namespace heed {

/// A pipeline whose task is known at run time only.
class HEED_API Pipeline {
 public:
  using Any = std::variant<TextGeneration, Translation, TextClassification, TokenClassification,
                           FillMask, FeatureExtraction, ImageClassification,
                           ZeroShotImageClassification, ImageToText, SpeechRecognition>;

  explicit Pipeline(Any any) : any_(std::move(any)) {}

  std::string_view task() const;
  const LoadedModel& loaded() const;
  /// Results as JSON, an array with one entry per input (a text, or the path of an image), in the
  /// shape that Hugging Face's pipelines return. `options` is an object with Hugging Face's names
  /// (max_new_tokens, temperature, num_beams, top_k, …); an unknown one is an error that lists the
  /// known ones.
  Json operator()(const std::vector<std::string>& inputs, const Json& options,
                  const RunOptions& run = {}) const;
  Json operator()(const std::vector<std::string>& inputs, const RunOptions& run = {}) const;

  /// The pipeline itself; throws `Error` where it is of another task.
  template <class P>
  const P& as() const {
    if (const P* found = std::get_if<P>(&any_)) {
      return *found;
    }
    wrong_task(P::kTask);
  }

 private:
  [[noreturn]] void wrong_task(std::string_view wanted) const;

  Any any_;
};

/// Opens a model for a task by Hugging Face's name. Throws `Error` where the model cannot do it:
/// "`translation` needs an encoder-decoder model; this folder holds a decoder (mistral)."
HEED_API Pipeline pipeline(std::string_view task, const std::filesystem::path& model,
                           const OpenOptions& options = {});
template <class P>
P pipeline(const std::filesystem::path& model, const OpenOptions& options = {}) {
  return P(model, options);
}
/// The task names that pipeline() knows.
HEED_API std::vector<std::string> pipeline_tasks();

}  // namespace heed
