#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/command.h"
#include "heed/inspect.h"
#include "heed/models.h"
#include "heed/picture.h"
#include "heed/text.h"
#include "pipelines/image_input.h"

namespace heed::app {

struct InspectOptions {
  std::string model;
  std::string tokenizer;  ///< where it does not lie with the model
  std::string adapter;
  std::optional<std::string> text;
  std::string text_pair;
  std::string target;  ///< what the decoder reads; empty: what the model says itself
  std::string image;
  std::string audio;
  std::string ask;        ///< the word that a reader is asked about
  std::string points_at;  ///< the word that heads should look at, for the table
  std::string kind;
  int64_t layer = -1;
  int64_t head = -1;
  int64_t top_k = 0;
  std::string format = "term";
  std::string output;
  std::vector<std::string> ablate;  ///< "L.H" or "L.H=scale"
  bool no_causal = false;
  bool rollout = false;
  bool heads_table = false;
  bool patches = false;
  int64_t query = 0;  ///< whose patches are shown
  std::string show = "weights";
  std::string language;  ///< "en" or "ko"
  std::string scale = "absolute";
  std::string colors;  ///< empty: by the values
  bool hide_special = false;
  std::string why;  ///< "LAYER,HEAD,QUERY,KEY": the score to split into parts
  int width = 0;
};

/// What a model is given, and what its positions are called.
struct InspectInput {
  ModelInput input;
  std::vector<std::string> source;                   ///< of input_ids, or of the patches
  std::vector<std::string> target;                   ///< of decoder_input_ids
  std::vector<std::string> text;                     ///< of input_ids, where patches are the source
  std::vector<bool> source_special, target_special;  ///< whether a position is a special token
  std::string asked;                                 ///< the word that a readout starts from
  int64_t asked_place = -1;
  Tensor image;  ///< u8 [H, W, 3]; of speech the spectrogram, low frequencies at the bottom
  int64_t patch_rows = 0, patch_columns = 0, first_patch = 0;
  VisionConfig vision;  ///< of a model that sees
};
InspectInput inspect_input(const Model& model, const Tokenizer& tokenizer,
                           const InspectOptions& options);

/// Writes the explorer page with everything about the input inside: one file that needs no server.
void write_inspect_page(const Model& model, const Tokenizer& tokenizer,
                        const InspectOptions& options, const std::vector<HeadScale>& heads);

/// Splits one score into what the parts of the residual stream contribute, and prints them.
int inspect_why(const Model& model, const Tokenizer& tokenizer, const InspectOptions& options,
                const Common& common);

struct Guess {
  std::string token;
  double probability = 0;
};

/// How much attention of one kind a model has.
struct AttentionKind {
  std::string kind;
  int64_t layers = 0, heads = 0;
};

std::vector<AttentionKind> kinds_of(const Recorder& recorder);

/// What came out of a pass with a recorder over it.
struct Inspection {
  std::unique_ptr<Recorder> recorder;
  InspectInput input;
  std::string model_type;
  std::vector<AttentionKind> kinds;  ///< all that the model has
  std::vector<Guess> prediction;     ///< most likely first
  int64_t predicted_position = -1;   ///< of the mask that the prediction is for
  std::vector<Guess> undisturbed;    ///< the same without --ablate and --no-causal
  std::vector<std::string> row_labels(const RecordedAttention& attention) const;
  std::vector<std::string> column_labels(const RecordedAttention& attention) const;

 private:
  std::vector<std::string> labels_of(const std::string& kind, int64_t count) const;
};

/// Writes the result in the format asked for, to the file or to stdout.
void write_inspection(const Inspection& inspection, const InspectOptions& options,
                      const Common& common);

}  // namespace heed::app
