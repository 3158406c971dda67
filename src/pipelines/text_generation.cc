#include <algorithm>

#include "base/check.h"
#include "heed/io.h"
#include "pipelines/batches.h"

namespace heed {
namespace {

/// Keys and values that a cache's file may hold.
constexpr int64_t kCacheBytes = int64_t{4} << 30;
constexpr std::string_view kNeeds = "a decoder (gpt2, llama, …) or an encoder-decoder";

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
  const int64_t context = loaded.model->context_length();
  const bool decoder = loaded.model->kind() == ModelKind::decoder;
  for (size_t i = 0; i < prompts.size(); ++i) {
    auto& ids = prompts[i];
    const auto length = static_cast<int64_t>(ids.size());
    if (length == 0) {
      report_error(options.run, TextGeneration::kTask, i,
                   "the prompt has no tokens and the model no start token");
    } else if (decoder && context > 0 && length > context) {
      if (!options.truncate) {
        report_error(
            options.run, TextGeneration::kTask, i,
            fmt::format("the prompt has {} tokens; the model's context is {}", length, context));
        ids.clear();
        continue;
      }
      const int64_t kept = std::max<int64_t>(1, context - options.max_new_tokens);
      ids.erase(ids.begin(), ids.end() - kept);
      if (options.run.on_warning) {
        options.run.on_warning(
            i, fmt::format("the prompt has {} tokens; only the last {} were read", length, kept));
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

TextGeneration::TextGeneration(const std::filesystem::path& model, const OpenOptions& options)
    : TextGeneration(open_model(model, options)) {}

TextGeneration::TextGeneration(LoadedModel model) : loaded_(std::move(model)) {
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

std::vector<GeneratedText> TextGeneration::from_tokens(
    const std::vector<std::vector<TokenId>>& given, const GenerationOptions& wanted,
    const OnPiece& on_piece) const {
  GenerationOptions options = wanted;
  if (options.sampling.dry_multiplier > 0.0 && options.sampling.dry_breakers.empty()) {
    options.sampling.dry_breakers =
        tokens_containing(loaded_.tokenizer, options.dry_sequence_breakers);
  }
  check(options.num_return_sequences >= 1, kTask, "{} samples per prompt",
        options.num_return_sequences);
  const auto prompts = usable_prompts(loaded_, given, options);
  const auto samples = static_cast<size_t>(options.num_return_sequences);
  std::vector<Running> all;
  all.reserve(prompts.size() * samples);  // addresses stay
  Scheduler scheduler(*loaded_.model, options.run.batch_size);
  scheduler.speculate(options.speculation);
  const bool cached = !options.cache_file.empty();
  if (cached) {
    scheduler.share_prefixes(kCacheBytes);
    if (std::filesystem::exists(options.cache_file)) {
      scheduler.load_prefixes(options.cache_file);
    }
  }
  int64_t done = 0;
  for (size_t i = 0; i < prompts.size() * samples; ++i) {
    Request request;
    std::vector<int64_t> continued;  // by the text
    if (!prompts[i / samples].empty()) {
      request =
          request_of(loaded_, prompts[i / samples], options, static_cast<int64_t>(i % samples));
      // A grammar's text is the tokens' own, with a space that they begin with.
      continued =
          options.is_answer && !options.constraint ? std::vector<int64_t>() : request.prompt;
    }
    Running& running = all.emplace_back(loaded_.tokenizer, options, continued);
    running.result.input = i / samples;
    running.result.sample = static_cast<int64_t>(i % samples);
    if (prompts[i / samples].empty()) {
      ++done;
      continue;
    }
    const auto give = [&on_piece, &running](const std::string& piece) {
      running.result.text += piece;
      if (on_piece && !piece.empty()) {
        on_piece(running.result.input, running.result.sample, piece);
      }
    };
    running.end.assign(request.end.begin(), request.end.end());
    request.on_token = [&running, &options, give](const SampledToken& token) {
      running.push(token);
      if (std::find(running.end.begin(), running.end.end(), token.id) == running.end.end()) {
        give(running.stream.push(token.id));
      }
      return !running.stream.stopped() && !options.run.stop.stop_requested();
    };
    scheduler.add(std::move(request), [&, give](FinishReason reason) {
      running.result.finish = reason;
      give(running.stream.finish());
      ++done;
      if (options.run.progress) {
        options.run.progress(done, static_cast<int64_t>(prompts.size() * samples));
      }
    });
  }
  while (!options.run.stop.stop_requested() && scheduler.step()) {
  }
  if (cached) {
    scheduler.save_prefixes(options.cache_file);
  }
  std::vector<GeneratedText> results;
  results.reserve(all.size());
  for (Running& running : all) {
    const bool cut = options.run.stop.stop_requested() && !prompts[running.result.input].empty() &&
                     running.result.finish == FinishReason::length &&
                     std::cmp_less(running.result.ids.size(), options.max_new_tokens);
    running.result.finish = cut ? FinishReason::stopped : running.result.finish;
    results.push_back(std::move(running.result));
  }
  return results;
}

}  // namespace heed
