#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/fair_queue.h"
#include "serve/loaded_model.h"
#include "serve/metrics.h"

namespace heed::serve {

/// What every task has: whose it is, and how its end is told. The callbacks run on the engine's
/// thread and must return quickly.
struct Task {
  LoadedModelPtr model;
  std::string client;  ///< clients take turns
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
  std::function<bool()> cancelled;                   ///< asked before the task starts
  std::function<void(const std::string&)> on_error;  ///< the task failed or was dropped
};

/// A sequence to generate. `request.on_token` returns false to end it; the slot is free before the
/// next token of the others.
struct GenerationTask : Task {
  Request request;
  std::function<void(FinishReason)> on_finish;
};

/// A text for an encoder; goes through the model together with others.
struct EncoderTask : Task {
  std::vector<TokenId> ids, type_ids;  ///< type_ids empty: all 0
  /// Row `row` of the batch, whose text has `length` tokens, is this task's.
  std::function<void(const ModelOutput&, int64_t row, int64_t length)> on_output;
};

/// Any other work on a model, alone: an image, a beam search.
struct SingleTask : Task {
  std::function<void()> run;
};

/// Runs all models on one thread (whose loops use all cores): decoding sequences advance together
/// token by token; between two tokens at most one batch of texts and one single task run.
class Engine {
 public:
  struct Options {
    int64_t slots = 16;                           ///< sequences that decode together, per model
    int64_t batch_texts = 32;                     ///< texts of an encoder's batch
    int64_t batch_tokens = 4096;                  ///< and their tokens
    int64_t prefix_bytes = int64_t{256} << 20;    ///< of prompts that may be shared, per model
    std::chrono::milliseconds keep_idle{60'000};  ///< a model's shared prompts, without use
  };
  Engine(const Options& options, Metrics& metrics);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void submit(GenerationTask task);
  void submit(EncoderTask task);
  void submit(SingleTask task);

 private:
  struct Runner;
  struct Sequence;
  void run();
  bool has_work() const;
  void admit();
  void advance();
  void drop_idle();
  void step(Runner& runner);
  void start(Runner& runner, GenerationTask task);
  bool run_encoder_batch();
  void run_texts(std::vector<EncoderTask> tasks);
  bool run_single();
  void drop_everything();
  template <class T>
  bool dropped(const T& task);

  const Options options_;
  Metrics& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  // Under the mutex: what was submitted.
  std::map<const LoadedModel*, FairQueue<GenerationTask>> generation_;
  std::map<const LoadedModel*, FairQueue<EncoderTask>> texts_;
  FairQueue<SingleTask> single_;
  // The engine's thread only.
  std::map<const LoadedModel*, std::unique_ptr<Runner>> runners_;
  const LoadedModel* last_texts_ = nullptr;
  std::thread thread_;
};

}  // namespace heed::serve
