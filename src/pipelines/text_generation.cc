#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/language.h"
#include "base/output_file.h"
#include "heed/io.h"
#include "heed/runtime.h"
#include "pipelines/batches.h"
#include "pipelines/json_options.h"

namespace heed {
namespace {

/// Keys and values that a cache's file may hold.
constexpr int64_t kCacheBytes = int64_t{4} << 30;
constexpr std::string_view kNeeds = say("a decoder (gpt2, llama, …) or an encoder-decoder");

/// One sequence on its way: tokens come in, text goes out.
struct Running {
  Running(const Tokenizer& tokenizer, const GenerationOptions& options,
          const std::vector<int64_t>& prompt)
      : stream(tokenizer, options.stop_strings, prompt) {}

  TextStream stream;
  GeneratedText result;
  std::vector<TokenId> end;  ///< ids that are no part of the text

  void push(const SampledToken& token) {
    result.ids.push_back(static_cast<TokenId>(token.id));
    result.log_probabilities.push_back(token.log_probability);
  }
};

/// Prompts of `loaded` that leave room for at least one new token; others are cut or reported.
std::vector<std::vector<TokenId>> usable_prompts(const LoadedModel& loaded,
                                                 std::vector<std::vector<TokenId>> prompts,
                                                 const GenerationOptions& options) {
  const int64_t context = loaded.model->decoder_context_length();
  const bool decoder = loaded.model->kind() == ModelKind::decoder;
  for (size_t i = 0; i < prompts.size(); ++i) {
    auto& ids = prompts[i];
    const auto length = static_cast<int64_t>(ids.size());
    if (length == 0) {
      report_error(options.run, TextGeneration::kTask, i,
                   say("the prompt has no tokens and the model has no start token"));
    } else if (decoder && context > 0 && length > context) {
      if (!options.truncate) {
        report_error(options.run, TextGeneration::kTask, i,
                     fmt::format(say("the prompt has {} tokens; the model's context is {}"), length,
                                 context));
        ids.clear();
        continue;
      }
      const int64_t kept = std::max<int64_t>(1, context - options.max_new_tokens);
      ids.erase(ids.begin(), ids.end() - kept);
      if (options.run.on_warning) {
        options.run.on_warning(
            i,
            fmt::format(say("the prompt has {} tokens; only the last {} were read"), length, kept));
      }
    }
  }
  return prompts;
}

Request request_of(const LoadedModel& loaded, const std::vector<TokenId>& prompt,
                   const GenerationOptions& options, int64_t sample) {
  Request request;
  if (loaded.model->kind() == ModelKind::decoder) {
    request.prompt.assign(prompt.begin(), prompt.end());
  } else {
    request.encoder = padded_input({{prompt}}, {0});
  }
  request.stream = static_cast<uint64_t>(sample);
  apply_generation_options(*loaded.model, options, request);
  return request;
}

}  // namespace

void apply_generation_options(const Model& model, const GenerationOptions& options,
                              Request& request) {
  request.sampling = options.sampling;
  request.max_tokens = options.max_new_tokens;
  request.constraint = options.constraint;
  apply_generation_tokens(model, request);
  if (options.ignore_eos) {
    request.suppress_tokens.insert(request.suppress_tokens.end(), request.end.begin(),
                                   request.end.end());
    request.end.clear();
  }
  for (const TokenId id : options.stop_token_ids) {
    if (id < 0 || id >= model.vocab_size()) {
      fail(ErrorKind::usage, "stop_token", "{} is no token id: the model has {} tokens", id,
           model.vocab_size());
    }
    request.end.push_back(id);
  }
}

TextGeneration::TextGeneration(LoadedModel model) : ModelPipeline(std::move(model)) {
  const ModelKind kind = loaded_.model->kind();
  check_suits(kind == ModelKind::decoder || kind == ModelKind::encoder_decoder, kTask, kNeeds,
              loaded_);
}

std::vector<TokenId> TextGeneration::tokens_of(std::string_view prompt) const {
  std::vector<TokenId> ids = loaded_.tokenizer.encode_ids(prompt, true);
  const SpecialTokens& special = loaded_.tokenizer.special();
  if (ids.empty() && special.bos) {
    ids.push_back(*special.bos);
  } else if (ids.empty() && special.eos) {
    ids.push_back(*special.eos);
  }
  return ids;
}

GeneratedText TextGeneration::operator()(std::string_view prompt, const GenerationOptions& options,
                                         const OnText& on_text) const {
  check(options.num_return_sequences == 1, kTask,
        "{} samples of one prompt; give the prompt in a vector to get them all",
        options.num_return_sequences);
  OnPiece on_piece;
  if (on_text) {
    on_piece = [&](size_t, int64_t, std::string_view piece) { on_text(piece); };
  }
  return std::move(from_tokens({tokens_of(prompt)}, options, on_piece).front());
}

std::vector<GeneratedText> TextGeneration::operator()(const std::vector<std::string>& prompts,
                                                      const GenerationOptions& options,
                                                      const OnPiece& on_piece) const {
  std::vector<std::vector<TokenId>> ids;
  ids.reserve(prompts.size());
  for (const std::string& prompt : prompts) {
    ids.push_back(tokens_of(prompt));
  }
  return from_tokens(ids, options, on_piece);
}

namespace {

/// All samples of all prompts on their way. Addresses stay: requests refer to it.
class Generation {
 public:
  Generation(const LoadedModel& loaded, const std::vector<std::vector<TokenId>>& given,
             const GenerationOptions& wanted, TextGeneration::OnPiece on_piece)
      : loaded_(loaded),
        options_(wanted),
        on_piece_(std::move(on_piece)),
        scheduler_(*loaded_.model, wanted.run.batch_size) {
    if (options_.sampling.dry_multiplier > 0.0 && options_.sampling.dry_breakers.empty()) {
      options_.sampling.dry_breakers =
          tokens_containing(loaded_.tokenizer, options_.dry_sequence_breakers);
    }
    check(options_.num_return_sequences >= 1, TextGeneration::kTask, "{} samples per prompt",
          options_.num_return_sequences);
    scheduler_.speculate(options_.speculation);
    if (!options_.cache_file.empty()) {
      check_can_write(options_.cache_file);
      scheduler_.share_prefixes(kCacheBytes);
      if (std::filesystem::exists(options_.cache_file)) {
        scheduler_.load_prefixes(options_.cache_file);
      }
    } else if (options_.num_return_sequences > 1 && !loaded_.model->kv_window().on()) {
      // Samples of a prompt that run together read it once; what has ended is not kept.
      scheduler_.share_prefixes(1);
    }
    prompts_ = usable_prompts(loaded_, given, options_);
    const auto samples = static_cast<size_t>(options_.num_return_sequences);
    all_.reserve(prompts_.size() * samples);
    for (size_t i = 0; i < prompts_.size() * samples; ++i) {
      add(i / samples, static_cast<int64_t>(i % samples));
    }
  }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  bool stopped() const { return options_.run.stop.stop_requested(); }
  /// One token for every sequence; false at the end.
  bool step() { return !stopped() && scheduler_.step(); }
  const GeneratedText& first() const { return all_.front().result; }

  std::vector<GeneratedText> take() {
    if (!options_.cache_file.empty()) {
      scheduler_.save_prefixes(options_.cache_file);
    }
    std::vector<GeneratedText> results;
    results.reserve(all_.size());
    for (Running& running : all_) {
      const bool cut = stopped() && !prompts_[running.result.input].empty() &&
                       running.result.finish == FinishReason::length &&
                       std::cmp_less(running.result.ids.size(), options_.max_new_tokens);
      running.result.finish = cut ? FinishReason::stopped : running.result.finish;
      results.push_back(std::move(running.result));
    }
    return results;
  }

 private:
  void add(size_t input, int64_t sample) {
    Request request;
    std::vector<int64_t> continued;  // by the text
    if (!prompts_[input].empty()) {
      request = request_of(loaded_, prompts_[input], options_, sample);
      // A grammar's text is the tokens' own, with a space that they begin with.
      continued =
          options_.is_answer && !options_.constraint ? std::vector<int64_t>() : request.prompt;
    }
    Running& running = all_.emplace_back(loaded_.tokenizer, options_, continued);
    running.result.input = input;
    running.result.sample = sample;
    if (prompts_[input].empty()) {
      ++done_;
      return;
    }
    running.end.assign(request.end.begin(), request.end.end());
    request.cancelled = [this] { return stopped(); };
    request.on_token = [this, &running](const SampledToken& token) {
      running.push(token);
      if (std::find(running.end.begin(), running.end.end(), token.id) == running.end.end()) {
        give(running, running.stream.push(token.id));
      }
      return !running.stream.stopped() && !stopped();
    };
    scheduler_.add(std::move(request), [this, &running](FinishReason reason) {
      running.result.finish = reason;
      give(running, running.stream.finish());
      ++done_;
      if (options_.run.progress) {
        options_.run.progress(done_, static_cast<int64_t>(all_.capacity()));
      }
    });
  }

  void give(Running& running, const std::string& piece) {
    running.result.text += piece;
    if (on_piece_ && !piece.empty()) {
      on_piece_(running.result.input, running.result.sample, piece);
    }
  }

  LoadedModel loaded_;
  GenerationOptions options_;
  TextGeneration::OnPiece on_piece_;
  Scheduler scheduler_;
  std::vector<std::vector<TokenId>> prompts_;
  std::vector<Running> all_;
  int64_t done_ = 0;
};

}  // namespace

std::vector<GeneratedText> TextGeneration::from_tokens(
    const std::vector<std::vector<TokenId>>& given, const GenerationOptions& options,
    const OnPiece& on_piece) const {
  Generation generation(loaded_, given, options, on_piece);
  try {
    const StopScope scope(options.run.stop);
    while (generation.step()) {
    }
  } catch (const Stopped&) {  // in the middle of a token: the result is what there is
  }
  return generation.take();
}

struct TextGenerationStream::State {
  State(const TextGeneration& pipeline, std::string_view prompt, const GenerationOptions& options)
      : generation(pipeline.loaded(), {pipeline.tokens_of(prompt)}, options,
                   [this](size_t, int64_t, std::string_view piece) { waiting += piece; }) {
    check(options.num_return_sequences == 1, TextGeneration::kTask,
          "{} samples cannot be streamed; ask for one", options.num_return_sequences);
  }
  std::string waiting;
  Generation generation;
  std::optional<GeneratedText> result;  // complete
};

TextGenerationStream::TextGenerationStream(const TextGeneration& pipeline, std::string_view prompt,
                                           const GenerationOptions& options)
    : state_(std::make_unique<State>(pipeline, prompt, options)) {}
TextGenerationStream::TextGenerationStream(const TextGeneration& pipeline, std::string_view prompt,
                                           const Json& options)
    : TextGenerationStream(pipeline, prompt, generation_options(options, {})) {}
TextGenerationStream::~TextGenerationStream() = default;
TextGenerationStream::TextGenerationStream(TextGenerationStream&&) noexcept = default;
TextGenerationStream& TextGenerationStream::operator=(TextGenerationStream&&) noexcept = default;

std::optional<std::string> TextGenerationStream::next(std::stop_token stop) {
  const StopScope scope(std::move(stop));
  try {
    while (!state_->result && state_->waiting.empty()) {
      if (!state_->generation.step()) {
        state_->result = std::move(state_->generation.take().front());
      }
    }
  } catch (...) {  // in the middle of a token: there is no going on
    state_->result = state_->generation.first();
    state_->result->finish = FinishReason::stopped;
    throw;
  }
  return state_->waiting.empty() ? std::nullopt : std::optional(std::exchange(state_->waiting, {}));
}

const GeneratedText& TextGenerationStream::result() const {
  return state_->result ? *state_->result : state_->generation.first();
}

}  // namespace heed
