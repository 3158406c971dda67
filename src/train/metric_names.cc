#include "train/metric_names.h"

#include <string_view>
#include <utility>

#include "base/language.h"

namespace heed {

std::string metric_name(const std::string& name) {
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"f1_macro", say("macro-F1")},
      {"accuracy", say("accuracy")},
      {"f1", "F1"},
      {"loss", say("loss")},
      {"bleu", "BLEU"},
      {"chrf", "chrF"},
      {"wer", "WER"},
      {"exact_match", say("exact match")},
      {"perplexity", say("perplexity")},
      {"bits_per_byte", say("bits per byte")},
      {"mean_squared_error", say("mean squared error")},
      {"mean_absolute_error", say("mean absolute error")},
      {"ndcg_10", "nDCG@10"},
      {"recall_1", say("recall@1")},
      {"recall_10", say("recall@10")}};
  for (const auto& [known, shown] : kNames) {
    if (name == known) {
      return std::string(translate(shown));
    }
  }
  constexpr std::string_view kShortened = "ndcg_10_of_";  // of vectors cut to N numbers
  return name.starts_with(kShortened)
             ? tell("nDCG@10 of {} numbers", name.substr(kShortened.size()))
             : name;
}

}  // namespace heed
