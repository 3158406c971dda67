#include <algorithm>
#include <fstream>

#include "explore/answers.h"
#include "explore/trace.h"
#include "heed/models.h"
#include "heed/runtime.h"

namespace heed::explore {
namespace {

constexpr size_t kMostExamples = 3, kLongest = 300;

/// Whether a text has words, all known, and no special token among them.
bool is_plain(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode_ids(text, false);
  return !ids.empty() &&
         std::none_of(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.is_special(id); });
}

/// What the training run beside a model gave it as samples.
std::vector<std::string> sampled_inputs(const std::filesystem::path& model) {
  std::vector<std::string> texts;
  std::ifstream file(model.parent_path() / "samples.jsonl");
  for (std::string line; texts.size() < kMostExamples && std::getline(file, line);) {
    try {
      const std::string text = Json::parse(line, "samples.jsonl").string_or("input", "");
      if (!text.empty() && text.size() <= kLongest &&
          std::find(texts.begin(), texts.end(), text) == texts.end()) {
        texts.push_back(text);
      }
    } catch (const Error&) {  // a line that is being written
      break;
    }
  }
  return texts;
}

}  // namespace

std::vector<std::string> example_texts(const ExplorerModel& model) {
  if (model.model->kind() == ModelKind::regressor) {
    const bool run = std::filesystem::exists(model.path / "model");  // or the model in it
    return sampled_inputs(run ? model.path / "model" : model.path);
  }
  if (!model.tokenizer) {
    return {};
  }
  std::vector<std::string> texts;
  if (model_spec(*model.model).points_at_tokens) {
    // The sentences that quickstart's reader learned to understand, in either language.
    texts = {"The animal didn't cross the street because it was too tired .",
             "The animal didn't cross the street because it was too wide .",
             "그 동물은 길을 건너지 않았다 . 그것은 너무 피곤했기 때문이다 .",
             "그 동물은 길을 건너지 않았다 . 그것은 너무 넓었기 때문이다 ."};
  } else if (model.path.filename() == "model" && model.model->kind() != ModelKind::decoder) {
    // Of a text that goes on, samples are cut out of the middle: no good beginning.
    texts = sampled_inputs(model.path);
  }
  std::erase_if(texts, [&](const std::string& text) { return !is_plain(model.tokenizer, text); });
  return texts;
}

}  // namespace heed::explore
