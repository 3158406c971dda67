#include "running.h"

#include "alternate.h"
#include "base/check.h"
#include "generate/prefill.h"
#include "heed/generate.h"
#include "heed/models.h"
#include "heed/pipelines.h"
#include "heed/text.h"

namespace heed::bench {
namespace {

constexpr int64_t kMostIds = int64_t{1} << 24;

/// A prompt through an empty cache, then tokens that are given, for one sequence or many at once.
/// What counts is the prompt where `kind` is prefill, and the tokens after it where it is decode.
/// With `resume` the prompt is read once and every run goes on from where the last one ended.
class Continue final : public PeerWork {
 public:
  explicit Continue(const Json& command)
      : model_(load_model(
            command.string("model"),
            {.in_memory = true, .kv_type = dtype_from_name(command.string_or("kv", "f32"))})),
        prompt_(command.at("prompt").integers(0, kMostIds)),
        prefill_(command.string("kind") == "prefill"),
        resume_(command.find("resume") && command.boolean("resume")),
        sequences_(static_cast<size_t>(command.integer("sequences", 1, 1024))),
        caches_(sequences_) {
    if (!prefill_) {
      tokens_ = command.at("tokens").integers(0, kMostIds);
    }
  }

  double run() override {
    double start = seconds_now();
    if (!resume_ || caches_.front().length == 0) {
      read_prompt();
    }
    if (prefill_) {
      return seconds_now() - start;
    }
    start = seconds_now();
    for (const int64_t token : tokens_) {
      std::vector<SequenceCache*> places;
      std::vector<int64_t> next;
      for (size_t i = 0; i < sequences_; ++i) {
        places.push_back(&caches_[i]);
        next.push_back(token + static_cast<int64_t>(i));
      }
      logits_ = continue_sequences(*model_, next, std::move(places));
    }
    return seconds_now() - start;
  }

  void read_prompt() {
    constexpr size_t kMostRuns = 64;  // that go on from each other
    const auto capacity =
        static_cast<int64_t>(prompt_.size() + tokens_.size() * (resume_ ? kMostRuns : 1));
    Request request;
    request.prompt = prompt_;
    for (size_t i = 0; i < sequences_; ++i) {
      request.prompt.back() = prompt_.back() + static_cast<int64_t>(i);
      logits_ =
          start_sequence(*model_, request, start_tokens(*model_, request), capacity, caches_[i]);
    }
  }

  /// Of the last sequence's last logits.
  std::vector<double> values() const override {
    const auto width = static_cast<size_t>(model_->vocab_size());
    std::vector<double> values;
    const std::vector<float> logits = logits_.to_vector<float>();
    add_sample(std::span(logits).last(width), values);
    return values;
  }

 private:
  std::unique_ptr<Model> model_;
  std::vector<int64_t> prompt_, tokens_;
  bool prefill_;
  bool resume_;
  size_t sequences_;
  std::vector<SequenceCache> caches_;
  Tensor logits_;
};

/// The greedy answer of a chat model to one message, read and written; `lookup` guesses tokens from
/// the prompt, `schema` makes it JSON. An answer may end early, so the time is that of its tokens,
/// scaled to all of them. Values: the answer's ids.
class Answer final : public PeerWork {
 public:
  explicit Answer(const Json& command)
      : model_(load_model(command.string("model"), {.in_memory = true})),
        lookup_(command.find("lookup") && command.boolean("lookup")) {
    const Tokenizer tokenizer = Tokenizer::load(command.string("model"));
    const std::vector<ChatMessage> messages{{"user", command.string("message")}};
    request_.prompt = chat_tokens(tokenizer, ChatTemplate::load(command.string("model")), messages);
    request_.max_tokens = command.integer("max_tokens", 1, 4096);
    apply_generation_tokens(*model_, request_);
    const std::string schema = command.string_or("schema", "");
    if (!schema.empty()) {
      request_.constraint = std::make_shared<TokenConstraint>(Grammar::from_json_schema(schema),
                                                              TokenTable(tokenizer));
    }
  }

  double run() override {
    ids_.clear();
    double first = 0.0;
    Request request = request_;
    request.on_token = [&](const SampledToken& token) {
      if (ids_.empty()) {
        first = seconds_now();
      }
      ids_.push_back(static_cast<double>(token.id));
      return true;
    };
    Scheduler scheduler(*model_);
    scheduler.speculate({.lookup = lookup_});
    scheduler.add(std::move(request));
    scheduler.run();
    const double steps = std::max(1.0, static_cast<double>(ids_.size()) - 1.0);
    return (seconds_now() - first) / steps * static_cast<double>(request_.max_tokens);
  }

  std::vector<double> values() const override { return ids_; }

 private:
  std::unique_ptr<Model> model_;
  bool lookup_;
  Request request_;
  std::vector<double> ids_;
};

/// Beam search over sentences of ids, all at once. Values: the score of every best hypothesis.
class Translate final : public PeerWork {
 public:
  explicit Translate(const Json& command) : model_(load_model(command.string("model"))) {
    const Json sources = command.at("sources");
    for (size_t i = 0; i < sources.size(); ++i) {
      const std::vector<int64_t> ids = sources[i].integers(0, kMostIds);
      Request request;
      request.encoder.input_ids = Tensor::from(ids, {1, static_cast<int64_t>(ids.size())});
      request.max_tokens = command.integer("max_tokens", 1, 4096);
      request.end = generation_tokens(*model_).end;
      requests_.push_back(std::move(request));
    }
    options_.beams = command.integer("beams", 1, 64);
    options_.max_tokens = command.integer("max_tokens", 1, 4096);
  }

  double run() override {
    best_.clear();
    const double start = seconds_now();
    for (const std::vector<Hypothesis>& found : beam_search(*model_, requests_, options_)) {
      best_.push_back(found.front());
    }
    return seconds_now() - start;
  }

  std::vector<double> values() const override {
    std::vector<double> values;
    for (const Hypothesis& hypothesis : best_) {
      values.push_back(hypothesis.score);
    }
    return values;
  }

 private:
  std::unique_ptr<Model> model_;
  std::vector<Request> requests_;
  BeamOptions options_;
  std::vector<Hypothesis> best_;
};

}  // namespace

std::unique_ptr<PeerWork> make_running_work(const Json& command) {
  const std::string kind = command.string("kind");
  if (kind == "translate") {
    return std::make_unique<Translate>(command);
  }
  if (kind == "answer") {
    return std::make_unique<Answer>(command);
  }
  check(kind == "prefill" || kind == "decode", "worker", "'{}' is no kind of work", kind);
  return std::make_unique<Continue>(command);
}

}  // namespace heed::bench
