#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "explore/failure.h"
#include "explore/watcher.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/serve.h"

namespace heed::explore {

/// A token as the page shows it.
struct ShownToken {
  int64_t id = -1;
  std::string label;  ///< what a picture writes at it
  std::string text;   ///< the piece of the text it stands for
  bool special = false;
  int64_t group = 0;  ///< tokens of one group are pieces of one character
  int64_t word = -1;
};
std::vector<ShownToken> shown_tokens(const Tokenizer& tokenizer, const Encoding& encoding,
                                     std::string_view text);
std::vector<ShownToken> shown_tokens(const Tokenizer& tokenizer, const std::vector<TokenId>& ids);
/// A token of a model's vocabulary, which may be larger than the tokenizer's: "<50300>" then.
std::string token_name(const Tokenizer& tokenizer, int64_t id);

/// What a request asks to be run.
struct TraceRequest {
  std::string model;
  std::optional<std::string> text, pair, target, image, audio, features, ask;
  /// In place of texts: the tokens themselves.
  std::optional<std::vector<TokenId>> ids, target_ids;
};

/// Pixels [1, C, H, W] of an image (base64 of a file), or of an example where there is none.
Tensor image_input(const ExplorerModel& model, const std::optional<std::string>& image);
/// Such pixels as a PNG file: what the model sees.
std::string seen_picture(const ExplorerModel& model, const Tensor& pixels);
/// Features [1, N, F] of an image's regions (base64 of a .npy or .safetensors file), or of an
/// example where there is none.
Tensor feature_input(const ExplorerModel& model, const std::optional<std::string>& features);
/// The log-mel spectrogram [1, mels, frames] of a recording (base64 of a file); of silence where
/// there is none.
Tensor speech_input(const ExplorerModel& model, const std::optional<std::string>& audio);

/// What a RAG reads: a question behind a document, where there is one, as its config.json joins
/// them.
std::string text_with_document(const Model& model, const std::string& question,
                               const std::optional<std::string>& document);

/// What the LM head of a decoder reads.
inline constexpr const char* kFinalRows = "ln_final.hook_normalized";

class Trace;

/// One change of a pass; see docs/formats/explorer-protocol.md.
struct Intervention {
  enum class Type { head, edge, position, causal, patch };
  Type type = Type::head;
  std::string kind, hook, mode;
  int64_t layer = 0, head = -1, query = 0, key = 0;
  std::optional<int64_t> position, from_position;
  double scale = 0.0;
  std::shared_ptr<Trace> from;
  std::string json;  ///< as it was sent
};

/// A stage of a model that merges patches from stage to stage: a stack with a grid of its own.
struct Stage {
  std::string stack;  ///< "stages.0."
  int64_t first_layer = 0;
  RowGrid grid;
  double picture_rows = 0, picture_columns = 0;  ///< places that the picture itself covers
  std::vector<ShownToken> tokens;                ///< of the attention's positions
};

/// An attention of the model as the page lists it.
struct ShownAttention {
  std::string kind;
  int64_t layers = 0, heads = 0, queries = 0, keys = 0, offset = 0;
  bool causal = false;
};

/// A stretch of the source's tokens that may be the answer to a question, both ends included.
struct AnswerSpan {
  int64_t first = 0, last = 0;
};

/// One input of a model and everything that can be asked about its pass. Keeps little: what is
/// asked for later is computed by another pass, which gives the same bits.
class Trace {
 public:
  Trace(ExplorerModel model, TraceRequest request, std::vector<Intervention> interventions);

  const ExplorerModel& model() const { return model_; }
  const TraceRequest& request() const { return request_; }
  const ModelInput& input() const { return input_; }
  const std::vector<ShownToken>& source() const { return source_; }
  const std::vector<ShownToken>& target() const { return target_; }
  bool has_target() const { return !target_.empty(); }
  bool generated() const { return generated_; }
  double seconds() const { return seconds_; }
  const std::vector<Intervention>& interventions() const { return interventions_; }
  const std::vector<ShownAttention>& attentions() const { return attentions_; }
  const std::vector<Watcher::Seen>& hooks() const { return hooks_; }
  bool has_hook(const std::string& name) const;
  /// Rows that one sequence has at a hook.
  int64_t rows_of(const std::string& hook) const;
  /// The tokens that a stack's rows stand for: the target's for "decoder." and "text_model.".
  const std::vector<ShownToken>& tokens_of(const std::string& stack) const;
  /// Empty for models whose rows are the same from the first layer to the last.
  const std::vector<Stage>& stages() const { return stages_; }
  const Stage* stage(const std::string& stack) const;
  /// What the queries of an attention with fewer of them than tokens stand for; empty for others.
  const std::vector<ShownToken>& landmarks() const { return landmarks_; }
  /// The numbers that a regressor's decoder read, behind the zeros it begins with.
  std::string target_numbers() const;

  /// One attention, recorded; Failure 404 where there is none.
  const RecordedAttention& attention(const std::string& kind, int64_t layer);
  /// All attentions of a kind, in order.
  std::vector<const RecordedAttention*> attentions_of(const std::string& kind);
  /// Every hook's row at a position of a stack.
  const std::map<std::string, Row>& rows_at(const std::string& stack, int64_t position);
  /// The same at several positions, by one pass; not kept.
  std::vector<std::map<std::string, Row>> rows_at(const std::string& stack,
                                                  const std::vector<int64_t>& positions);
  /// A whole activation as [rows, …]; Failure 404 where there is none.
  Tensor activation(const std::string& hook);

  /// Logits: of a position, of the whole input (-1), or a reader's over the positions.
  Row logits(int64_t position);
  /// Positions that have logits of their own; empty where there is one answer for the whole input.
  const std::vector<int64_t>& predictions_at() const { return predictions_at_; }
  int64_t first_position() const { return first_position_; }
  /// The word that a reader is asked about; -1 for other models.
  int64_t asked() const { return asked_; }
  /// What a logit stands for: a token, a label, a word or a stretch of the text.
  std::string name_of(int64_t id) const;
  /// The stretches that a question answerer chooses among, one for each logit; empty for others.
  const std::vector<AnswerSpan>& spans() const { return spans_; }
  /// The logits of all spans from a start and an end logit for each row.
  Row span_logits(const std::vector<Row>& pairs) const;
  /// The logits that a row has of its own: a question answerer's start and end logit.
  Row row_logits(int64_t row) const;

  /// Runs passes of the same input in which rows of hooks are replaced, and gives what other hooks
  /// make of each: result[i] belongs to rows[i].
  struct Mapping {
    std::string from, to;
    std::vector<Row> rows;
  };
  std::vector<std::vector<Row>> map_rows(const std::vector<Mapping>& mappings);
  /// Whether products of the model round their inputs, as those with quantised weights do. What
  /// map_rows() and map_to_logits() give is not rounded, and so is linear.
  bool rounds_inputs() const { return rounds_inputs_; }
  /// The logits that result where rows of one hook are replaced, row by row.
  std::vector<Row> map_to_logits(const std::string& hook, const std::vector<Row>& rows);
  /// The logits of the whole input where a hook's rows are replaced by each of these matrices.
  std::vector<Row> logits_of(const std::string& hook, const std::vector<Tensor>& values);
  /// The gradient of Σ weights[token] · logit(token) of the whole input with respect to all rows of
  /// a hook, where these are replaced: [rows, width] for each of the values.
  std::vector<Tensor> gradients_of(const std::string& hook, const std::vector<Tensor>& values,
                                   const std::vector<std::pair<int64_t, double>>& weights);
  /// Hooks of one pass as matrices [rows, …].
  std::vector<Tensor> activations(const std::vector<std::string>& hooks);
  /// Whether there is one answer for the whole input, from logits [1, classes].
  bool is_pooled() const;
  /// The gradient of Σ weights[token] · logit(token) with respect to each row of a hook, at the
  /// values given: row i of the result belongs to rows[i].
  std::vector<Row> logit_gradients(const std::string& hook, const std::vector<Row>& rows,
                                   const std::vector<std::pair<int64_t, double>>& weights);

  /// Rows that answers found and may want again, by a name of their own; empty where there are
  /// none.
  std::vector<Row>& remembered(const std::string& name);

  /// Approximate bytes that the trace keeps.
  int64_t bytes() const;

 private:
  void read_input();
  void read_text(bool with_target);
  void check_ids(const std::vector<TokenId>& ids, const char* param) const;
  void add_target();
  /// The decoder of a classifier, a question answerer or a bare model (BART) reads the source.
  void add_source_as_target();
  void find_spans();
  /// What a head has for each token as `logits` [B, T, 2]: a question answerer's start_logits and
  /// end_logits, and of ELECTRA's discriminator 0 and the logit that a token was replaced. Others
  /// as they are.
  ModelOutput with_row_logits(ModelOutput output) const;
  std::string span_text(const AnswerSpan& span) const;
  /// The texts that an image is compared with, one per line; the first one is the target.
  void read_texts();
  /// How well each text fits the image, [1, texts]: the first as this pass has it.
  Tensor logits_per_text(const ModelOutput& output) const;
  /// The numbers of a regressor's encoder and decoder.
  void read_numbers();
  void name_patches();
  void name_stages();
  /// Nystromformer's queries where a text is longer than its landmarks: means of neighbours.
  void name_landmarks();
  void name_frames();
  void name_regions();
  /// The row of a hook's value where row `i` of the residual stream stands.
  int64_t row_in(const std::string& hook, int64_t i) const;
  /// One pass of `copies` copies of the input, with the interventions.
  ModelOutput run(Watcher& watcher, int64_t copies = 1, bool changed = true);
  void apply_interventions(Watcher& watcher) const;
  void note_attentions(const Watcher& watcher);
  void find_predictions(const ModelOutput& output);
  ModelInput repeated(int64_t copies) const;
  /// As many sequences as hold `wanted` rows that are replaced: the first tokens of a longer text.
  struct Probe {
    ModelInput input;
    int64_t copies = 1, rows = 0;  ///< rows of each copy
  };
  Probe probe_input(int64_t wanted, int64_t count) const;
  /// One pass, which the Watcher in scope sees.
  void run_probes(const Probe& probe) const;

  ExplorerModel model_;
  TraceRequest request_;
  std::vector<Intervention> interventions_;
  ModelInput input_;
  std::vector<ShownToken> source_, target_;
  std::vector<Stage> stages_;
  std::vector<ShownToken> landmarks_;
  std::vector<std::string> texts_;  ///< that an image is compared with
  bool generated_ = false;
  double seconds_ = 0;
  std::vector<ShownAttention> attentions_;
  std::vector<Watcher::Seen> hooks_;
  Tensor logits_;
  bool few_logits_ = false;  ///< a long text: logits are computed for the rows that are asked about
  Tensor final_rows_;        ///< then: what the LM head reads, [T, hidden_size]
  std::vector<int64_t> predictions_at_;
  int64_t first_position_ = -1;
  int64_t asked_ = -1;
  int64_t passage_ = 0;            ///< first token of a pair's second text
  std::vector<TextSpan> offsets_;  ///< of the source's tokens in their text
  std::vector<AnswerSpan> spans_;
  bool finds_replaced_ = false;  ///< ELECTRA's discriminator
  std::vector<RecordedAttention> recorded_;
  bool all_recorded_ = false;
  bool rounds_inputs_ = false;
  std::map<std::pair<std::string, int64_t>, std::map<std::string, Row>> rows_;
  int64_t row_bytes_ = 0;
  std::map<std::string, std::vector<Row>> remembered_;
};

}  // namespace heed::explore
