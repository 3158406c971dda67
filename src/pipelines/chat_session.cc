#include <algorithm>

#include "base/check.h"
#include "heed/io.h"
#include "heed/pipelines.h"

namespace heed {
namespace {

constexpr const char* kChat = "chat";
/// Keys and values of the conversation that are kept between two questions.
constexpr int64_t kPrefixBytes = int64_t{4} << 30;

std::vector<ChatMessage> with_system(const std::string& system,
                                     const std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> all;
  if (!system.empty()) {
    all.push_back({"system", system});
  }
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

}  // namespace

std::vector<TokenId> chat_tokens(const Tokenizer& tokenizer, const ChatTemplate& tmpl,
                                 std::span<const ChatMessage> messages,
                                 const ChatOptions& options) {
  ChatOptions wanted = options;
  wanted.add_generation_prompt = true;
  // The template writes the special tokens itself.
  return tokenizer.encode_ids(tmpl.render(messages, wanted), false);
}

struct ChatSession::Impl {
  Impl(LoadedModel model, const std::filesystem::path& chat_template)
      : loaded(std::move(model)),
        tmpl(ChatTemplate::load(chat_template.empty() ? loaded.path : chat_template)) {
    check(loaded.model->kind() == ModelKind::decoder, kChat,
          "needs a language model (a decoder); {} is none", loaded.path.string());
    start_scheduler();
  }

  void start_scheduler() {
    scheduler = std::make_unique<Scheduler>(*loaded.model, 1);
    scheduler->share_prefixes(kPrefixBytes);
  }
  GeneratedText answer(const std::vector<TokenId>& prompt, const GenerationOptions& options,
                       const TextGeneration::OnText& on_text);

  LoadedModel loaded;
  ChatTemplate tmpl;
  std::unique_ptr<Scheduler> scheduler;
  std::string system;
  std::vector<ChatMessage> messages;
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;
};

GeneratedText ChatSession::Impl::answer(const std::vector<TokenId>& prompt,
                                        const GenerationOptions& options,
                                        const TextGeneration::OnText& on_text) {
  Request request;
  request.prompt.assign(prompt.begin(), prompt.end());
  GenerationOptions own = options;
  if (own.sampling.dry_multiplier > 0.0 && own.sampling.dry_breakers.empty()) {
    own.sampling.dry_breakers = tokens_containing(loaded.tokenizer, own.dry_sequence_breakers);
  }
  apply_generation_options(*loaded.model, own, request);
  // A grammar's text is the tokens' own, with a space that they begin with.
  TextStream stream(loaded.tokenizer, options.stop_strings,
                    options.constraint ? request.prompt : std::vector<int64_t>());
  GeneratedText result;
  const auto give = [&](const std::string& piece) {
    result.text += piece;
    if (on_text && !piece.empty()) {
      on_text(piece);
    }
  };
  const std::vector<int64_t> end = request.end;
  request.cancelled = [&] { return options.run.stop.stop_requested(); };
  request.on_token = [&](const SampledToken& token) {
    result.ids.push_back(static_cast<TokenId>(token.id));
    result.log_probabilities.push_back(token.log_probability);
    if (std::find(end.begin(), end.end(), token.id) == end.end()) {
      give(stream.push(token.id));
    }
    return !stream.stopped() && !options.run.stop.stop_requested();
  };
  scheduler->speculate(options.speculation);
  const int64_t shared = scheduler->shared_tokens();
  scheduler->add(std::move(request), [&](FinishReason reason) {
    result.finish = reason;
    give(stream.finish());
  });
  try {
    scheduler->run();
  } catch (...) {
    start_scheduler();  // the old one refers to this call
    throw;
  }
  prompt_tokens = static_cast<int64_t>(prompt.size());
  reused_tokens = scheduler->shared_tokens() - shared;
  return result;
}

ChatSession::ChatSession(LoadedModel model, const std::filesystem::path& chat_template)
    : impl_(std::make_unique<Impl>(std::move(model), chat_template)) {}
ChatSession::~ChatSession() = default;
ChatSession::ChatSession(ChatSession&&) noexcept = default;
ChatSession& ChatSession::operator=(ChatSession&&) noexcept = default;

void ChatSession::set_system(std::string text) { impl_->system = std::move(text); }
const std::string& ChatSession::system() const { return impl_->system; }
void ChatSession::reset() { impl_->messages.clear(); }
const std::vector<ChatMessage>& ChatSession::messages() const { return impl_->messages; }
std::string ChatSession::to_json() const {
  return heed::to_json(with_system(impl_->system, impl_->messages));
}
void ChatSession::load_cache(const std::filesystem::path& file) {
  impl_->scheduler->load_prefixes(file);
}
void ChatSession::save_cache(const std::filesystem::path& file) const {
  impl_->scheduler->save_prefixes(file);
}
int64_t ChatSession::prompt_tokens() const { return impl_->prompt_tokens; }
int64_t ChatSession::reused_tokens() const { return impl_->reused_tokens; }
const LoadedModel& ChatSession::loaded() const { return impl_->loaded; }

GeneratedText ChatSession::ask(std::string_view text, const GenerationOptions& options,
                               const TextGeneration::OnText& on_text) {
  std::vector<ChatMessage> asked = with_system(impl_->system, impl_->messages);
  asked.push_back({"user", std::string(text)});
  const std::vector<TokenId> prompt = chat_tokens(impl_->loaded.tokenizer, impl_->tmpl, asked);
  const int64_t context = impl_->loaded.model->decoder_context_length();
  check(context == 0 || std::cmp_less_equal(prompt.size(), context), kChat,
        "the conversation has {} tokens; the model's context is {}. /reset begins a new one",
        prompt.size(), context);
  GeneratedText result = impl_->answer(prompt, options, on_text);
  impl_->messages.push_back({"user", std::string(text)});
  impl_->messages.push_back({"assistant", result.text});
  return result;
}

}  // namespace heed
