#include "serve/engine.h"

#include <pthread.h>

#include <algorithm>

#include "base/check.h"

namespace heed::serve {
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kLook{200};  // for runners that are not used any more

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

/// A sequence that decodes. The scheduler calls back into it; it outlives the scheduler's copy.
struct Engine::Sequence {
  GenerationTask task;
  Clock::time_point last;  // when it got its slot, then when the last token came
  int64_t tokens = 0;
  bool finished = false;
};

/// The scheduler of one model, while it has something to do and for a while after.
struct Engine::Runner {
  Runner(LoadedModelPtr model_in, const Options& options)
      : model(std::move(model_in)), scheduler(*model->model, options.slots) {
    scheduler.share_prefixes(options.prefix_bytes);
  }

  LoadedModelPtr model;
  Scheduler scheduler;
  std::vector<std::shared_ptr<Sequence>> active;
  Clock::time_point used = Clock::now();
  bool broken = false;
};

Engine::Engine(const Options& options, Metrics& metrics) : options_(options), metrics_(metrics) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "heed-engine");
    run();
  });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  drop_everything();
}

void Engine::submit(GenerationTask task) {
  const LoadedModel* model = task.model.get();
  const std::string client = task.client;
  const std::lock_guard lock(mutex_);
  generation_[model].push(client, std::move(task));
  metrics_.waiting += 1;
  changed_.notify_all();
}

void Engine::submit(EncoderTask task) {
  const LoadedModel* model = task.model.get();
  const std::string client = task.client;
  const std::lock_guard lock(mutex_);
  texts_[model].push(client, std::move(task));
  metrics_.waiting += 1;
  changed_.notify_all();
}

void Engine::submit(SingleTask task) {
  const std::string client = task.client;
  const std::lock_guard lock(mutex_);
  single_.push(client, std::move(task));
  metrics_.waiting += 1;
  changed_.notify_all();
}

bool Engine::has_work() const {
  const bool decoding = std::any_of(runners_.begin(), runners_.end(),
                                    [](const auto& item) { return !item.second->active.empty(); });
  return decoding || !generation_.empty() || !texts_.empty() || !single_.empty();
}

void Engine::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto awake = [&] { return stopping_ || has_work(); };
    if (runners_.empty()) {
      changed_.wait(lock, awake);
    } else {
      changed_.wait_for(lock, kLook, awake);
    }
    if (stopping_) {
      break;
    }
    lock.unlock();
    try {
      admit();
      advance();
      drop_idle();
      run_encoder_batch();
      run_single();
    } catch (const std::exception&) {
      // Out of memory beside the models' own work: a task that was being moved is dropped, which
      // answers its request with an error; the others go on.
    }
    lock.lock();
  }
}

/// Whether nobody waits for a task any more.
template <class T>
bool Engine::dropped(const T& task) {
  metrics_.waiting -= 1;
  if (task.cancelled && task.cancelled()) {
    task.on_error("the client has gone");
    return true;
  }
  return false;
}

/// Fills free slots with waiting sequences, clients in turn.
void Engine::admit() {
  std::vector<GenerationTask> tasks;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = generation_.begin(); at != generation_.end();) {
      const auto runner = runners_.find(at->first);
      auto room =
          options_.slots -
          (runner == runners_.end() ? 0 : static_cast<int64_t>(runner->second->active.size()));
      for (; room > 0 && !at->second.empty(); --room) {
        tasks.emplace_back();  // where there is no memory for it, the task stays in its queue
        tasks.back() = std::move(*at->second.pop());
      }
      at = at->second.empty() ? generation_.erase(at) : std::next(at);
    }
  }
  for (GenerationTask& task : tasks) {
    if (dropped(task)) {
      continue;
    }
    try {
      auto at = runners_.find(task.model.get());
      if (at == runners_.end()) {
        auto made = std::make_unique<Runner>(task.model, options_);  // before there is an entry
        at = runners_.emplace(task.model.get(), std::move(made)).first;
      }
      start(*at->second, std::move(task));
    } catch (const std::exception&) {
      // Out of memory: the task is dropped, which answers its request; the others are started.
    }
  }
}

void Engine::start(Runner& runner, GenerationTask task) {
  const auto sequence = std::make_shared<Sequence>();
  sequence->last = Clock::now();
  sequence->task = std::move(task);
  Request request = sequence->task.request;
  request.cancelled = sequence->task.cancelled;
  request.on_token = [this, sequence](const SampledToken& choice) {
    const auto now = Clock::now();
    const bool first = sequence->tokens == 0;
    (first ? metrics_.prompt_seconds : metrics_.time_per_token)
        .observe(seconds(now - sequence->last));
    if (first) {
      metrics_.time_to_first_token.observe(seconds(now - sequence->task.arrived));
    }
    sequence->last = now;
    ++sequence->tokens;
    metrics_.generated_tokens += 1;
    const auto length =
        static_cast<int64_t>(sequence->task.request.prompt.size()) + sequence->tokens;
    metrics_.longest_sequence = std::max(metrics_.longest_sequence.load(), length);
    return !sequence->task.request.on_token || sequence->task.request.on_token(choice);
  };
  metrics_.prompt_tokens += static_cast<int64_t>(request.prompt.size());
  runner.active.reserve(runner.active.size() + 1);
  runner.scheduler.add(std::move(request), [this, sequence](FinishReason reason) {
    sequence->finished = true;
    metrics_.active -= 1;
    sequence->task.on_finish(reason);
  });
  metrics_.active += 1;
  runner.active.push_back(sequence);
}

void Engine::advance() {
  for (auto& [model, runner] : runners_) {
    if (!runner->active.empty()) {
      step(*runner);
      runner->used = Clock::now();
    }
  }
}

void Engine::drop_idle() {
  const auto now = Clock::now();
  std::erase_if(runners_, [&](const auto& item) {
    return item.second->broken ||
           (item.second->active.empty() && now - item.second->used >= options_.keep_idle);
  });
}

void Engine::step(Runner& runner) {
  metrics_.batch_sequences.observe(static_cast<double>(runner.active.size()));
  const int64_t shared = runner.scheduler.shared_tokens();
  try {
    runner.scheduler.step();
    metrics_.cached_prompt_tokens += runner.scheduler.shared_tokens() - shared;
  } catch (const std::exception& problem) {
    // The scheduler's state is not known any more: none of its sequences can go on.
    runner.broken = true;
    const auto active = std::move(runner.active);
    runner.active.clear();
    for (const auto& sequence : active) {
      metrics_.active -= sequence->finished ? 0 : 1;
    }
    for (const auto& sequence : active) {
      if (!sequence->finished) {
        sequence->task.on_error(problem.what());
      }
    }
    return;
  }
  std::erase_if(runner.active, [](const auto& sequence) { return sequence->finished; });
}

bool Engine::run_encoder_batch() {
  std::vector<EncoderTask> tasks;
  {
    const std::lock_guard lock(mutex_);
    if (texts_.empty()) {
      return false;
    }
    // Models take turns: the one behind the model that was served last.
    auto queue = texts_.upper_bound(last_texts_);
    queue = queue == texts_.end() ? texts_.begin() : queue;
    last_texts_ = queue->first;
    int64_t tokens = 0;
    while (!queue->second.empty() && static_cast<int64_t>(tasks.size()) < options_.batch_texts &&
           tokens < options_.batch_tokens) {
      tasks.emplace_back();
      tasks.back() = std::move(*queue->second.pop());
      tokens += static_cast<int64_t>(tasks.back().ids.size());
    }
    if (queue->second.empty()) {
      texts_.erase(queue);
    }
  }
  std::erase_if(tasks, [&](const EncoderTask& task) { return dropped(task); });
  if (!tasks.empty()) {
    run_texts(std::move(tasks));
  }
  return true;
}

/// One pass over texts of one model, longest first, so that no core starts the longest one last.
void Engine::run_texts(std::vector<EncoderTask> tasks) {
  std::stable_sort(tasks.begin(), tasks.end(), [](const EncoderTask& a, const EncoderTask& b) {
    return a.ids.size() > b.ids.size();
  });
  const auto rows = static_cast<int64_t>(tasks.size());
  const auto longest = static_cast<int64_t>(tasks.front().ids.size());
  metrics_.batch_texts.observe(static_cast<double>(rows));
  try {
    const NoGrad no_grad;
    ModelInput input;
    input.skip_padding = true;
    input.input_ids = Tensor::zeros({rows, longest}, DType::i64);
    input.attention_mask = Tensor::zeros({rows, longest}, DType::i64);
    const bool typed = std::any_of(tasks.begin(), tasks.end(),
                                   [](const EncoderTask& task) { return !task.type_ids.empty(); });
    if (typed) {
      input.token_type_ids = Tensor::zeros({rows, longest}, DType::i64);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const EncoderTask& task = tasks[static_cast<size_t>(row)];
      metrics_.prompt_tokens += static_cast<int64_t>(task.ids.size());
      const int64_t start = row * longest;
      std::copy(task.ids.begin(), task.ids.end(), input.input_ids.data<int64_t>() + start);
      std::fill_n(input.attention_mask.data<int64_t>() + start, task.ids.size(), 1);
      if (typed) {
        std::copy(task.type_ids.begin(), task.type_ids.end(),
                  input.token_type_ids.data<int64_t>() + start);
      }
    }
    const ModelOutput output = tasks.front().model->model->forward(input);
    for (int64_t row = 0; row < rows; ++row) {
      const EncoderTask& task = tasks[static_cast<size_t>(row)];
      task.on_output(output, row, static_cast<int64_t>(task.ids.size()));
    }
  } catch (const std::exception& error) {
    for (const EncoderTask& task : tasks) {
      task.on_error(error.what());
    }
  }
}

bool Engine::run_single() {
  std::optional<SingleTask> task;
  {
    const std::lock_guard lock(mutex_);
    task = single_.pop();
  }
  if (!task || dropped(*task)) {
    return task.has_value();
  }
  try {
    const NoGrad no_grad;
    task->run();
  } catch (const std::exception& error) {
    task->on_error(error.what());
  }
  return true;
}

/// After the engine's thread has ended: tells everyone who still waits.
void Engine::drop_everything() {
  static const std::string kStopping = "the server is stopping";
  for (auto& [model, runner] : runners_) {
    for (const auto& sequence : runner->active) {
      if (!sequence->finished) {
        sequence->task.on_error(kStopping);
      }
    }
  }
  runners_.clear();
  for (auto& [model, queue] : generation_) {
    while (auto task = queue.pop()) {
      task->on_error(kStopping);
    }
  }
  for (auto& [model, queue] : texts_) {
    while (auto task = queue.pop()) {
      task->on_error(kStopping);
    }
  }
  while (auto task = single_.pop()) {
    task->on_error(kStopping);
  }
}

}  // namespace heed::serve
