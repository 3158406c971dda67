#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io.h"
#include "heed/tensor.h"
#include "heed/text.h"

// Datasets and batches. Text is tokenized once into memory-mapped files that are found again by
// fingerprint, so a dataset need not fit in memory. The contents of a batch depend on the data, the
// seed and the step alone.

namespace heed {

// ---------------------------------------------------------------------------------------------
// Tokens

struct ShardData;

/// Sequences of ids, one after the other. A cheap handle to a mapped file or to memory.
class HEED_API TokenShard {
 public:
  TokenShard() = default;
  explicit TokenShard(std::shared_ptr<const ShardData> data) : data_(std::move(data)) {}
  /// A shard file; throws kind data where it is broken.
  static TokenShard open(const std::filesystem::path& path);
  static TokenShard from(const std::vector<std::vector<TokenId>>& sequences);

  explicit operator bool() const { return data_ != nullptr; }
  int64_t tokens() const;  ///< of all sequences
  int64_t sequences() const;
  int64_t begin(int64_t sequence) const;  ///< index of its first token among all tokens
  int64_t length(int64_t sequence) const;
  TokenId token(int64_t index) const;
  /// Copies `count` ids, starting at `index`.
  void copy(int64_t index, int64_t count, int64_t* out) const;
  /// Throws, with the token's index, if an id is not below `vocabulary`.
  void check_vocabulary(int64_t vocabulary, std::string_view what = "data") const;
  /// Tells data and tokenizer apart.
  uint64_t fingerprint() const;

 private:
  std::shared_ptr<const ShardData> data_;
};

struct DataOptions {
  // Names of fields in JSON lines and in files with a header line.
  std::string text_field = "text";
  std::string label_field = "label";
  std::string source_field = "source";
  std::string target_field = "target";
  /// Where shards are kept. Empty: $XDG_CACHE_HOME/heed or ~/.cache/heed.
  std::filesystem::path cache;
  /// Called from time to time while a shard is made.
  std::function<void(int64_t bytes_done, int64_t bytes_total)> progress;
};

/// Running text for language models. `data` names files and folders, separated by commas: .jsonl
/// (one text per line), .tsv and .csv (a column with a header), anything else is plain text. After
/// every file, JSON line and row comes the end-of-text token where the tokenizer has one.
HEED_API TokenShard load_text(const std::string& data, const Tokenizer& tokenizer,
                              const DataOptions& options = {});

/// Sources with their targets, aligned.
struct PairData {
  TokenShard source;
  TokenShard target;
};
/// `data` is "a.en,b.de" or "train.{en,de}" (line by line), or a .tsv, .csv or .jsonl file.
HEED_API PairData load_pairs(const std::string& data, const Tokenizer& source,
                             const Tokenizer& target, const DataOptions& options = {});

/// Texts with a class each.
struct LabelledData {
  TokenShard text;
  TokenShard label;                 ///< one id per text
  std::vector<std::string> labels;  ///< names by id
};
/// `data` is a .tsv (label and text in either order), .csv or .jsonl file. `labels` fixes the
/// classes (another name is an error); empty: those found, numbers in order of value, else sorted.
HEED_API LabelledData load_labelled(const std::string& data, const Tokenizer& tokenizer,
                                    const std::vector<std::string>& labels = {},
                                    const DataOptions& options = {});

// The same as texts, for training tokenizers and for evaluation.
/// A text and what it becomes.
struct TextPair {
  std::string source;
  std::string target;
  bool operator==(const TextPair&) const = default;
};
struct LabelledText {
  std::string label;
  std::string text;
};
/// At most `max_bytes` of text, from the beginning.
HEED_API std::vector<std::string> read_texts(const std::string& data,
                                             const DataOptions& options = {},
                                             int64_t max_bytes = int64_t{100} << 20);
HEED_API std::vector<TextPair> read_pairs(const std::string& data, const DataOptions& options = {},
                                          int64_t limit = INT64_MAX);
HEED_API std::vector<LabelledText> read_labelled(const std::string& data,
                                                 const DataOptions& options = {},
                                                 int64_t limit = INT64_MAX);

// ---------------------------------------------------------------------------------------------
// Images and numbers

/// Images with a class each, in memory (MNIST) or in files that are read when they are needed.
struct ImageData {
  Tensor pixels;                             ///< u8 [N, C, H, W], or undefined
  std::vector<std::filesystem::path> files;  ///< where `pixels` is undefined
  std::vector<int32_t> label;                ///< one class per image; empty for captions
  std::vector<std::string> labels;           ///< names by id
  std::vector<std::string> captions;         ///< one caption per image; empty for classes
  int64_t size() const { return pixels ? pixels.size(0) : static_cast<int64_t>(files.size()); }
};
/// A folder with one folder per class; or an IDX file of images ("train-images-idx3-ubyte.gz", its
/// labels beside it), or a folder with such files, whose `split` ("train", "t10k") is taken.
HEED_API ImageData load_image_classes(const std::string& data, std::string_view split = "train");
/// A folder with captions.tsv (image, caption), .csv, .jsonl or .json (an object of
/// captions by image, a list, or COCO's form), or such a file itself.
/// `data` may also be the name of a registered dataset, with a variant: "shapes:ko". `held_out`:
/// its examples for evaluation; files have no such part.
HEED_API ImageData load_captioned_images(const std::string& data, bool held_out = false);

/// Makes the images of a variant ("" where none is named).
using MakeImages = std::function<ImageData(const std::string& variant, bool held_out)>;
/// Makes a dataset of captioned images known by a name; a later one of that name takes its place. A
/// file or folder of that name comes first. Call it before other threads load data.
HEED_API void register_captioned_images(const std::string& name, MakeImages make);
/// Whether `data` names a registered dataset instead of files.
HEED_API bool is_registered_dataset(const std::string& data);

/// Region features [N, regions, width] with captions: FILE.safetensors with a tensor `features`
/// (f32), and FILE.tsv or FILE.txt beside it with one caption per line.
struct FeatureData {
  Tensor features;
  std::vector<std::string> captions;
};
HEED_API FeatureData load_features(const std::string& data);

/// Recordings in files, which are read when they are needed, and what is said in them.
struct SpeechData {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> texts;
};
/// A folder with transcripts.tsv (audio, text), .csv or .jsonl, or such a file itself; the names of
/// recordings are relative to it.
HEED_API SpeechData load_transcripts(const std::string& data);

/// Sequences of numbers of one length: inputs and targets f32 [N, T, 1].
struct NumberData {
  Tensor input;
  Tensor target;
};
/// .jsonl ({"input": […], "target": […]}) or .tsv (numbers with spaces, tab, numbers).
HEED_API NumberData load_numbers(const std::string& data);

// ---------------------------------------------------------------------------------------------
// Batches

/// Examples as a model takes them: `model.forward(batch).loss`. Tensors that a task has no use for
/// are undefined; `attention_mask` is where nothing is padded. Labels of -100 do not count.
struct Batch : ModelInput {
  int64_t step = 0;
  int64_t rows = 0;            ///< of this rank
  int64_t targets = 0;         ///< labels that count, of this rank
  int64_t global_targets = 0;  ///< the same over all ranks
  int64_t tokens = 0;          ///< real input and target tokens of this rank
};
/// Rows [begin, end) of a batch, with `targets` and `tokens` counted again: micro-batches.
HEED_API Batch batch_rows(const Batch& batch, int64_t begin, int64_t end);

/// Which examples of a set.
enum class Part { all, train, validation };

struct LoaderOptions {
  int64_t batch = 32;  ///< rows of all ranks together; a step's rows are the same for any `ranks`
  uint64_t seed = 0;
  bool shuffle = true;  ///< off: in order, once through, the last batch may be smaller
  int rank = 0;
  int ranks = 1;
  Part part = Part::all;
  double validation = 0.0;  ///< fraction of the dataset that Part::validation takes
  int64_t max_length = 0;   ///< longer sequences lose their end; 0: keep all
};

/// The position of a loader; enough to resume exactly.
struct LoaderState {
  int64_t step = 0;
  uint64_t seed = 0;
  int64_t batch = 0;
  uint64_t fingerprint = 0;  ///< of the data and of how it is cut
  bool operator==(const LoaderState&) const = default;
};

/// Batches without end (shuffle on) or once through. batch(s) depends on nothing but s.
class HEED_API Loader {
 public:
  explicit Loader(const LoaderOptions& options);
  virtual ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// This rank's rows of the batch of a step.
  Batch batch(int64_t step) const;
  Batch next() { return batch(step_++); }
  /// Steps once through: rounded up where in order, down where shuffled (but at least 1).
  int64_t steps_per_epoch() const;
  int64_t examples() const { return examples_; }
  /// The examples of a step over all ranks, by their index in the whole dataset.
  std::vector<int64_t> examples_of(int64_t step) const;
  bool at_end() const { return !options_.shuffle && step_ >= steps_per_epoch(); }

  LoaderState state() const;
  /// Throws kind data where data, seed or batch size are not those of the state.
  void restore(const LoaderState& state);

 protected:
  /// To be called by the constructor: the size of the whole set, before it is split. `bucketed`:
  /// examples of like length come together where shuffled.
  void set_examples(int64_t count, uint64_t fingerprint, bool bucketed);
  /// Rows [begin, end) of a batch of the given examples; all of them shape the padding.
  virtual Batch collate(const std::vector<int64_t>& examples, int64_t begin, int64_t end,
                        int64_t step) const = 0;
  virtual int64_t length_of(int64_t example) const;
  const LoaderOptions& options() const { return options_; }
  int64_t epoch_of(int64_t step) const { return step / steps_per_epoch(); }

 private:
  struct Window;
  const Window& window(int64_t epoch, int64_t index) const;
  int64_t example_at(int64_t epoch, int64_t index) const;

  LoaderOptions options_;
  int64_t whole_ = 0;     ///< examples before the split
  int64_t first_ = 0;     ///< of this part, in the order of the split
  int64_t examples_ = 0;  ///< of this part
  uint64_t fingerprint_ = 0;
  bool bucketed_ = false;
  int64_t step_ = 0;
  mutable std::unique_ptr<Window> window_;
};

/// Blocks of `context` tokens with labels of the same tokens (a model compares position t with
/// label t + 1). Blocks overlap by one token, so each is predicted once per epoch. Part::validation
/// is the end of the text.
HEED_API std::unique_ptr<Loader> make_lm_loader(const TokenShard& text, int64_t context,
                                                const LoaderOptions& options);

struct Masking {
  TokenId mask = 0;           ///< id of [MASK]
  int64_t vocabulary = 0;     ///< ids for random replacement are drawn below it
  double share = 0.15;        ///< of tokens to predict: 80 % masked, 10 % random, 10 % kept
  std::vector<TokenId> keep;  ///< ids never chosen: special tokens
  TokenId first = -1;         ///< [CLS] before each block; -1: none
  TokenId last = -1;          ///< [SEP] after it
};
/// Blocks as above for masked language models; labels are -100 where nothing is to be predicted.
HEED_API std::unique_ptr<Loader> make_mlm_loader(const TokenShard& text, int64_t context,
                                                 const Masking& masking,
                                                 const LoaderOptions& options);

/// Special token ids of batches of sequences.
struct SequenceTokens {
  TokenId padding = 0;
  TokenId start = 0;  ///< what a decoder reads first
  TokenId end = -1;   ///< put after a target that lacks it and kept when one is cut; -1: nothing
};
/// Pairs of like length together. labels are the target, decoder_input_ids the target one later.
HEED_API std::unique_ptr<Loader> make_pair_loader(const PairData& data,
                                                  const SequenceTokens& tokens,
                                                  const LoaderOptions& options);
/// A question and the passages that may hold its answer, as the FiD reference implementation keeps
/// them.
struct FidExample {
  std::string question;
  std::string target;              ///< `target`, else the first of `answers`
  std::vector<TextPair> passages;  ///< title and text
};
/// JSON lines, or a JSON array, of {question, target or answers, ctxs: [{title, text}]}.
HEED_API std::vector<FidExample> read_fid(const std::string& data);
/// Every example with the same number of passages: the first `passages` of them, the question alone
/// where there are fewer. max_length counts tokens of a passage.
HEED_API std::unique_ptr<Loader> make_fid_loader(const std::vector<FidExample>& examples,
                                                 int64_t passages, const Tokenizer& tokenizer,
                                                 const SequenceTokens& tokens,
                                                 const LoaderOptions& options);
/// What a FiD reader reads of one passage: "question: … title: … context: …".
HEED_API std::string fid_text(std::string_view question, std::string_view title,
                              std::string_view text);

/// A query, a text that answers it, and texts that look as if they did.
struct RetrievalExample {
  std::string query;
  std::string positive;
  std::vector<std::string> negatives;
};
/// JSON lines of {query, positive, negatives: […]} (`anchor` and `negative` are known, too), or
/// pairs as read_pairs() takes them.
HEED_API std::vector<RetrievalExample> read_retrieval(const std::string& data);
/// An example is the query, its positive and its negatives, one after another (`passages` texts);
/// one with fewer negatives than others takes positives of the examples after it.
HEED_API std::unique_ptr<Loader> make_retrieval_loader(
    const std::vector<RetrievalExample>& examples, const Tokenizer& tokenizer,
    const SequenceTokens& tokens, const LoaderOptions& options);

/// Texts of like length together; labels i64 [B].
HEED_API std::unique_ptr<Loader> make_class_loader(const LabelledData& data,
                                                   const SequenceTokens& tokens,
                                                   const LoaderOptions& options);

/// How pixels become pixel_values.
struct ImageOptions {
  int64_t size = 0;      ///< height and width; 0: those of the images
  int64_t channels = 0;  ///< 1 or 3; 0: those of the images in memory, else 3
  std::array<double, 3> mean = {0.5, 0.5, 0.5};
  std::array<double, 3> stddev = {0.5, 0.5, 0.5};
};
HEED_API std::unique_ptr<Loader> make_image_loader(const ImageData& data,
                                                   const ImageOptions& images,
                                                   const LoaderOptions& options);
/// Captions are targets as in make_pair_loader().
HEED_API std::unique_ptr<Loader> make_caption_loader(const ImageData& data,
                                                     const ImageOptions& images,
                                                     const TokenShard& captions,
                                                     const SequenceTokens& tokens,
                                                     const LoaderOptions& options);
/// Log-mel spectrograms of `frames` frames in `mels` bands (longer recordings lose their end), and
/// texts as targets.
HEED_API std::unique_ptr<Loader> make_speech_loader(const SpeechData& data, int64_t mels,
                                                    int64_t frames, const TokenShard& texts,
                                                    const SequenceTokens& tokens,
                                                    const LoaderOptions& options);
HEED_API std::unique_ptr<Loader> make_caption_loader(const FeatureData& data,
                                                     const TokenShard& captions,
                                                     const SequenceTokens& tokens,
                                                     const LoaderOptions& options);
/// Every text with the tokens the tokenizer puts around it.
HEED_API TokenShard tokenize_all(const std::vector<std::string>& texts, const Tokenizer& tokenizer);
/// One image as pixel_values f32 [1, C, H, W].
HEED_API Tensor image_values(const Tensor& image, const ImageOptions& options);

HEED_API std::unique_ptr<Loader> make_number_loader(const NumberData& data,
                                                    const LoaderOptions& options);

}  // namespace heed
