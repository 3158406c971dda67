#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/data.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/train.h"

// Part of heed::lessons, a library of its own: synthetic datasets and the quickstart's model.

namespace heed {

// Synthetic datasets ------------------------------------------------------------------------------
//
// Small synthetic datasets for lessons and tests. Every example is a function of (options, index)
// alone, so it is the same on any machine and in any order. Part of heed::lessons, a library of its
// own.

enum class Language { english, korean };
/// "en" or "ko"; an error for anything else.
HEED_API Language parse_language(std::string_view code);

struct SyntheticOptions {
  Language language = Language::english;
  uint64_t seed = 0;
  /// Examples for evaluation. The coreference sentences then have pairs of nouns that
  /// stand together in no training sentence; the other sets draw from another stream.
  bool held_out = false;
};

/// "The animal didn't cross the street because it was too tired .": what does "it" mean? An
/// adjective for living things points to the animal of the main clause, one for places to its
/// place. Other animals and places may stand around it. A word is a token.
struct CoreferenceExample {
  std::vector<std::string> words;
  int query = 0;                      ///< index of "it" ("그것은", "그것이")
  int referent = 0;                   ///< index of the noun it stands for
  std::vector<int> candidates;        ///< indices of all nouns in order, the referent among them
  int evidence = 0;                   ///< index of the adjective that decides
  std::string answer;                 ///< the noun without its particle
  HEED_API std::string text() const;  ///< words with single spaces between them
};
HEED_API CoreferenceExample coreference_example(const SyntheticOptions& options, uint64_t index);
HEED_API std::vector<CoreferenceExample> coreference_examples(const SyntheticOptions& options,
                                                              int64_t count);
/// The two sentences of the tutorial, too tired and too wide. They follow the templates of the set;
/// their pair of nouns is held out.
HEED_API std::vector<CoreferenceExample> coreference_tutorial(Language language);
/// Every word that an example can hold, sorted.
HEED_API std::vector<std::string> coreference_words(Language language);
/// Every answer, sorted.
HEED_API std::vector<std::string> coreference_answers(Language language);

/// "March 9th, 2016" to "2016-03-09". With slashes the month comes first, with dots the day.
HEED_API TextPair date_example(const SyntheticOptions& options, uint64_t index);
/// "c a d" to "d a c".
HEED_API TextPair reverse_example(const SyntheticOptions& options, uint64_t index);
/// "c a d" to "c a d".
HEED_API TextPair copy_example(const SyntheticOptions& options, uint64_t index);
/// "57+8" to "65".
HEED_API TextPair addition_example(const SyntheticOptions& options, uint64_t index);

/// [10, 20, 30, 40, 50] to [12, 22, 32, 42, 52].
struct NumberExample {
  std::vector<double> input;
  std::vector<double> target;
};
/// Five whole numbers, 0 to 100, evenly spaced or at random, and each plus two.
HEED_API NumberExample plus_two_example(const SyntheticOptions& options, uint64_t index);

/// A drawn image and what it shows: "a red circle left of a blue square", the larger shape first.
struct ShapesExample {
  Tensor pixels;  ///< u8 [32, 32, 3]
  std::string caption;
};
HEED_API ShapesExample shapes_example(const SyntheticOptions& options, uint64_t index);
/// Examples 0 … count - 1 in memory, as load_captioned_images() returns a folder of them.
HEED_API ImageData shapes_images(const SyntheticOptions& options, int64_t count);

struct SyntheticDataset {
  std::string name;
  std::string summary;  ///< one line
  std::string format;   ///< what write_synthetic_dataset() writes
};
HEED_API const std::vector<SyntheticDataset>& synthetic_datasets();
/// One example of a set of text or numbers as a line without its end: JSON, or with tabs.
HEED_API std::string synthetic_line(std::string_view name, const SyntheticOptions& options,
                                    uint64_t index, bool json);
/// Writes `count` examples of the set of that name: JSON lines or tab-separated text by the ending
/// of `path` (.jsonl, .tsv), and for shapes a folder of images with captions.tsv.
HEED_API void write_synthetic_dataset(std::string_view name, const SyntheticOptions& options,
                                      int64_t count, const std::filesystem::path& path);

/// Lets load_captioned_images() and train() take "shapes" and "shapes:ko" for a dataset. Call it
/// once before; further calls change nothing.
HEED_API void register_synthetic_datasets();

// Coreference -------------------------------------------------------------------------------------
//
// The quickstart's model: a small encoder that learns what "it" stands for. Part of heed::lessons.

/// How the encoder's answer is read.
enum class Readout {
  attention,   ///< one attention from "it" over the sentence; its weights are the answer
  classifier,  ///< a plain classifier over the row of "it", which need not look where it answers
};

struct CoreferenceOptions {
  Language language = Language::english;
  uint64_t seed = 0;
  int64_t steps = 300;
  int64_t batch = 64;
  Readout readout = Readout::attention;
};

struct HEED_API CoreferenceReader {
  CoreferenceOptions options;
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;  ///< one token per word

  /// Weights of the readout from the query over the words of one sentence.
  std::vector<double> weights(const CoreferenceExample& example) const;
  /// The noun that the model takes "it" for.
  std::string answer(const CoreferenceExample& example) const;
};
/// Trains on generated sentences; `progress` is called after every step.
HEED_API CoreferenceReader
train_coreference(const CoreferenceOptions& options,
                  const std::function<void(const TrainProgress&)>& progress = nullptr);

struct CoreferenceScore {
  double accuracy = 0.0;  ///< the answer is the referent's word
  double pointing = 0.0;  ///< the readout's largest weight lies on the referent; 0 without one
};
/// On `count` sentences with pairs of nouns that no training sentence has. A Recorder in scope acts
/// on the model: that is how heads are ablated.
HEED_API CoreferenceScore score_coreference(const CoreferenceReader& reader, int64_t count);

}  // namespace heed
