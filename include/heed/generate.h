#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/models.h"
#include "heed/runtime.h"
#include "heed/text.h"

namespace heed {

// Grammars ----------------------------------------------------------------------------------------

struct GrammarRules;

/// The texts that a model may write: a context-free grammar over bytes. A cheap handle.
class HEED_API Grammar {
 public:
  /// From GBNF, the notation of llama.cpp: rules "name ::= …" with literals, character classes, any
  /// character, groups, alternatives and repetitions; the text is what `root` derives. `name`
  /// stands for the grammar in errors. Left recursion is an error.
  static Grammar from_gbnf(std::string_view text, std::string_view name = "grammar");
  /// JSON texts that a JSON Schema accepts. A keyword that is not supported is an error that names
  /// it and where it stands; docs/formats/grammar.md lists them.
  static Grammar from_json_schema(std::string_view schema, std::string_view name = "JSON schema");
  /// Any JSON object.
  static Grammar json_object();

  /// Whether the grammar derives the text.
  bool matches(std::string_view text) const;
  /// Whether some text that begins like this is derived.
  bool matches_prefix(std::string_view text) const;

  const GrammarRules& rules() const { return *rules_; }
  explicit Grammar(std::shared_ptr<const GrammarRules> rules) : rules_(std::move(rules)) {}

 private:
  std::shared_ptr<const GrammarRules> rules_;
};

class TokenTrie;

/// The bytes of all tokens of a tokenizer, as a trie. Building one takes a few milliseconds per
/// 10,000 tokens; it serves any number of grammars. A cheap handle.
class HEED_API TokenTable {
 public:
  explicit TokenTable(const Tokenizer& tokenizer);
  const TokenTrie& trie() const { return *trie_; }

 private:
  std::shared_ptr<const TokenTrie> trie_;
};

/// Follows one text through a grammar and says which tokens may come next.
class HEED_API TokenMatcher {
 public:
  TokenMatcher(const Grammar& grammar, const TokenTable& tokens);
  ~TokenMatcher();
  TokenMatcher(TokenMatcher&&) noexcept;
  TokenMatcher& operator=(TokenMatcher&&) noexcept;

  /// Whether this token may come next; not asked of end tokens.
  bool allows(TokenId id) const;
  /// Whether the text may end here.
  bool may_end() const;
  /// Sets the logits of tokens that may not come next to -infinity, those of `end` unless the text
  /// may end here. False where none is left.
  bool mask(std::span<float> logits, std::span<const TokenId> end);
  /// Goes on with a token that is allowed; false, and no change, for any other.
  bool accept(TokenId id);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A grammar for a tokenizer's tokens: what a Request takes.
class HEED_API TokenConstraint {
 public:
  TokenConstraint(Grammar grammar, TokenTable tokens)
      : grammar_(std::move(grammar)), tokens_(std::move(tokens)) {}
  TokenMatcher matcher() const { return {grammar_, tokens_}; }

 private:
  Grammar grammar_;
  TokenTable tokens_;
};

// Generation --------------------------------------------------------------------------------------

/// How the next token is chosen. First the logits change (bias, penalties, repeated n-grams), then
/// filters leave some of the tokens, in the order given here. What transformers has, too, gives the
/// same probabilities here.
struct Sampling {
  double temperature = 0.0;  ///< 0 is greedy, and so is anything below 1e-9
  double top_n_sigma =
      0.0;                 ///< logits at most this many standard deviations below the best; 0: off
  int64_t top_k = 0;       ///< 0: off
  double top_p = 1.0;      ///< smallest set with at least this probability
  double min_p = 0.0;      ///< at least this fraction of the best token's probability
  double typical_p = 1.0;  ///< the tokens nearest to the expected surprise, with this probability
  int64_t mirostat = 0;    ///< 2: keeps the surprise per token near mirostat_tau; 0: off
  double mirostat_tau = 5.0;  ///< bits per token
  double mirostat_eta = 0.1;  ///< how fast mirostat adapts

  /// Added to the logits of token ids.
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  /// Divides the positive and multiplies the negative logits of tokens of the prompt and the text.
  double repetition_penalty = 1.0;
  double frequency_penalty = 0.0;    ///< times the occurrences so far, subtracted
  double presence_penalty = 0.0;     ///< subtracted if there was one
  int64_t no_repeat_ngram_size = 0;  ///< no n-gram of this length comes twice; 0: off

  /// DRY: a token that would continue a repetition of n >= dry_allowed_length tokens loses
  /// dry_multiplier * dry_base ^ (n - dry_allowed_length). 0: off.
  double dry_multiplier = 0.0;
  double dry_base = 1.75;
  int64_t dry_allowed_length = 2;
  int64_t dry_range = -1;                  ///< looks at the last tokens only; -1: all
  std::vector<TokenId> dry_breakers = {};  ///< token ids that no repetition extends across; sorted

  uint64_t seed = 0;

  /// An error of kind usage that names the option where one makes no sense.
  HEED_API void check() const;
};

/// The tokens whose text contains one of `breakers`: Sampling::dry_breakers, sorted.
HEED_API std::vector<TokenId> tokens_containing(const Tokenizer& tokenizer,
                                                const std::vector<std::string>& breakers);
/// What separates sequences for DRY where nothing else is said: line ends, colons, quotes, stars.
HEED_API const std::vector<std::string>& default_dry_breakers();

/// A chosen token and the log of the probability that the model gave it, before anything changed.
struct SampledToken {
  TokenId id = 0;
  double log_probability = 0.0;
  /// The likeliest tokens with their log-probabilities, best first, where the request asks for
  /// them.
  std::vector<std::pair<TokenId, double>> top = {};
};

/// Chooses from logits [vocabulary]. Deterministic: `step` picks the random number. `history` is
/// what the penalties look at. Mirostat, which has a state, begins anew with every call.
HEED_API SampledToken sample_token(const float* logits, int64_t vocabulary,
                                   const Sampling& sampling, uint64_t stream, uint64_t step,
                                   const std::vector<TokenId>& history);

/// The ids with a part to play in generation, from config.json and generation_config.json.
struct GenerationTokens {
  std::vector<TokenId> end;  ///< any of these ends a sequence
  TokenId decoder_start = -1;
  TokenId pad = -1;
  std::vector<TokenId> suppress_tokens;  ///< bad_words_ids of one token (Marian's padding)
  TokenId forced_eos_token_id = -1;      ///< the last token, where the length runs out
  TokenId forced_bos_token_id = -1;  ///< the first token after decoder_start (a target language)
};
HEED_API GenerationTokens generation_tokens(const Model& model);

/// One sequence to generate.
struct Request {
  std::vector<TokenId> prompt;  ///< tokens to go on from; for an encoder-decoder usually empty
  ModelInput encoder;           ///< an encoder-decoder's input, a batch of one
  Sampling sampling;
  uint64_t stream = 0;  ///< random stream: sample number n of a prompt is stream n
  int64_t max_tokens = 128;
  std::vector<TokenId> end;              ///< ids that end it
  std::vector<TokenId> suppress_tokens;  ///< ids that are not chosen
  TokenId forced_eos_token_id =
      -1;  ///< what the last of max_tokens is, whatever the model says; -1: free
  TokenId forced_bos_token_id = -1;     ///< the first new token where `prompt` is empty; -1: free
  TokenId decoder_start_token_id = -1;  ///< in place of the model's own; -1: the model's
  int64_t top_log_probabilities = 0;    ///< how many alternatives every new token comes with
  /// Called before every choice with the logits [vocabulary] and the tokens so far, the prompt's
  /// included; may change the logits (biases, penalties, grammars). Calls for different sequences
  /// may run at the same time.
  std::function<void(std::span<float> logits, const std::vector<TokenId>& tokens)> adjust_logits;
  /// What the text must look like; may be empty. Where no token may follow, the sequence ends.
  std::shared_ptr<const TokenConstraint> constraint;
  /// Asked before every chunk of a prompt is read (may be empty): true ends the sequence.
  std::function<bool()> cancelled;
  /// Called before the prompt is read and after each of its chunks (may be empty): its tokens read
  /// so far, those that were taken from another sequence included, how many were, and all of them.
  std::function<void(int64_t read, int64_t shared, int64_t all)> on_prompt;
  /// Called with every new token; returning false ends the sequence (a stop string, a reader that
  /// went away).
  std::function<bool(const SampledToken&)> on_token;
};

/// Gives a request the model's own rules: where it ends, what is never written, what comes last.
HEED_API void apply_generation_tokens(const Model& model, Request& request);

enum class FinishReason { end_token, length, stopped };

struct PromptPart;  // what one pass reads of a prompt

/// Guesses tokens to come and checks the guesses in one pass (speculative decoding). What is
/// generated stays bit-identical, greedy or sampled; only the speed changes.
struct Speculation {
  bool lookup = false;  ///< prompt lookup: what followed the last tokens where they came before
  std::shared_ptr<const Model> draft = {};  ///< a smaller decoder with the same tokenizer
  int64_t most = 16;                        ///< guesses per pass, at most

  bool on() const { return lookup || draft != nullptr; }
};

/// Many sequences of different lengths decode together; they join and leave at any step. What a
/// sequence gets is bit-identical to running it alone.
class HEED_API Scheduler {
 public:
  /// At most `max_batch` sequences at a time; further ones wait in a queue.
  explicit Scheduler(const Model& model, int64_t max_batch = 16);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Takes a request; `on_finish` is called once, from step().
  void add(Request request, std::function<void(FinishReason)> on_finish = nullptr);
  /// One token for every active sequence, after waiting ones have joined; false where there is
  /// nothing left to do. Of a long prompt one chunk is read per step, so that the others go on.
  bool step();
  /// Keeps up to `bytes` of the keys and values of finished sequences: a prompt that begins like
  /// one of them, or like an active one's, does not read that beginning again. 0 (the default)
  /// keeps none. What is generated does not change. Decoders without a sliding window only. A cache
  /// with attention sinks that slid serves prompts that continue all of it, and their text may
  /// differ from that of a prompt that was read whole.
  void share_prefixes(int64_t bytes);
  /// Saves the kept keys and values with their tokens, and reads them back: a prompt that begins
  /// like one of them need not be read in another process. See docs/formats/prompt-cache.md. Both
  /// need share_prefixes(); load_prefixes() throws `Error` for the file of another model and for a
  /// damaged one.
  void save_prefixes(const std::filesystem::path& file) const;
  void load_prefixes(const std::filesystem::path& file);
  /// Decodes speculatively from now on. Models whose positions depend on the length of the sequence
  /// (LongRoPE), recurrent ones and those whose cache slides decode as before.
  void speculate(const Speculation& speculation);
  /// Guessed tokens so far, and how many of them were right.
  int64_t guessed_tokens() const { return guessed_tokens_; }
  int64_t accepted_tokens() const { return accepted_tokens_; }
  /// Tokens of prompts that were taken from another sequence so far.
  int64_t shared_tokens() const { return shared_tokens_; }
  void run() {
    while (step()) {
    }
  }

 private:
  struct Sequence;
  struct Prefixes;
  struct Drafter;
  void join();
  void start(Sequence& sequence);
  std::vector<PromptPart> next_parts(int64_t budget);
  void read_prompts();
  void begin_texts(const std::vector<Tensor>& rows);
  struct Prefix {
    const SequenceCache* cache = nullptr;
    int64_t length = 0;
  };
  Prefix best_prefix(const Sequence& sequence) const;
  bool take_prefix(Sequence& sequence, const std::vector<PromptPart>& parts);
  void leave(Sequence& sequence);
  void read_again(Sequence& sequence) const;
  std::vector<int64_t> guesses_for(Sequence& sequence) const;
  void take_guessed(Sequence& sequence, const Tensor& logits, int64_t row,
                    std::span<const int64_t> guesses);
  static bool constrain(std::span<float> logits, Sequence& sequence);
  std::optional<SampledToken> choose(Sequence& sequence, const Tensor& logits, int64_t row) const;
  void emit(Sequence& sequence, const std::optional<SampledToken>& choice);

  const Model& model_;
  int64_t max_batch_;
  int64_t long_from_;  // the length beyond which positions have other angles; 0: none
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::deque<std::unique_ptr<Sequence>> starting_;  // their prompts are being read
  std::vector<std::unique_ptr<Sequence>> active_;
  std::unique_ptr<Prefixes> prefixes_;
  std::unique_ptr<Drafter> drafter_;
  int64_t shared_tokens_ = 0;
  int64_t guessed_tokens_ = 0;
  int64_t accepted_tokens_ = 0;
};

/// Turns a sequence's tokens into text as they come: whole characters only, and nothing that may be
/// the beginning of a stop string.
class HEED_API TextStream {
 public:
  /// `prompt` are the tokens that the text continues: with them it keeps the space that it begins
  /// with. Without them it is a text of its own, such as an answer.
  TextStream(Tokenizer tokenizer, std::vector<std::string> stops,
             std::span<const TokenId> prompt = {});
  /// Text that is safe to show now. Sets stopped() where a stop string has come.
  std::string push(TokenId id);
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  void take(const std::string& text);
  std::string release(bool all);

  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string held_;
  size_t skipped_ = 0;  ///< bytes of the prompt that the decoder still holds
  bool stopped_ = false;
};

/// When a beam search ends that has as many finished texts as beams.
enum class EarlyStopping {
  no,     ///< when the best running beam, at its present length, cannot beat the worst of them
  yes,    ///< at once
  never,  ///< when no running beam can, at any length: the canonical search
};
/// "true", "false" or "never", as in generation_config.json; an error for anything else.
HEED_API EarlyStopping early_stopping_from_name(std::string_view name);

/// A hypothesis that a step of a beam search kept.
struct BeamStep {
  int64_t parent = 0;  ///< which of the step before it continues
  int64_t id = 0;      ///< its newest token
  double score = 0.0;  ///< sum of log-probabilities over length ^ length_penalty
  bool finished = false;
};

struct BeamOptions {
  int64_t beams = 4;
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::no;
  int64_t n_best = 1;
  int64_t max_tokens = 128;
  /// Called after every step with what was kept, those that go on first; of several requests, for
  /// each (may be empty).
  std::function<void(const std::vector<BeamStep>&)> on_step = {};
};
struct Hypothesis {
  std::vector<TokenId> ids;  ///< new tokens, with the end token where there is one
  double score = 0.0;        ///< sum of log-probabilities over length ^ length_penalty
};
/// The best continuations, best first. Of the request's sampling, the bias, the penalties and
/// no_repeat_ngram_size change the log-probabilities, as in transformers; the rest is not used.
HEED_API std::vector<Hypothesis> beam_search(const Model& model, const Request& request,
                                             const BeamOptions& options);
/// The same for several requests, whose beams decode together: a request's result is bit-identical
/// to searching for it alone.
HEED_API std::vector<std::vector<Hypothesis>> beam_search(const Model& model,
                                                          const std::vector<Request>& requests,
                                                          const BeamOptions& options);

/// Beam search with a RAG, marginalised over the documents of request.encoder (context_input_ids,
/// context_attention_mask and doc_scores of one question), best first. RagToken marginalises every
/// token; RagSequence searches with every document by itself and orders the answers by their
/// log-likelihood over all documents, which is then their score.
HEED_API std::vector<Hypothesis> generate_rag(const Model& model, const Request& request,
                                              const BeamOptions& options);

/// Perplexity of a language model on a text.
struct Perplexity {
  double loss = 0.0;    ///< mean of -log(probability), in nats per token
  int64_t tokens = 0;   ///< predicted: all but the first
  int64_t context = 0;  ///< tokens of a window

  double value() const;  ///< e^loss
};
/// Perplexity of a decoder on a text in windows of `context` tokens (0: the model's own, at most
/// 1,024), each `stride` tokens on from the one before (0: half a window). Every token counts once,
/// with at least context - stride tokens before it where the text has them. `progress` (may be
/// empty) is called with the tokens done so far.
HEED_API Perplexity perplexity(const Model& model, const std::vector<TokenId>& ids,
                               int64_t context = 0, int64_t stride = 0,
                               const std::function<void(int64_t)>& progress = nullptr);

}  // namespace heed
