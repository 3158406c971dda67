#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/file.h"
#include "base/printable.h"
#include "heed/command.h"
#include "heed/generation_options.h"
#include "heed/interrupt.h"
#include "heed/language.h"
#include "heed/model_options.h"
#include "heed/open.h"
#include "heed/pipelines.h"
#include "heed/print_generated.h"
#include "io/json_writer.h"

namespace heed::app::chat_command {
namespace {

struct Options {
  std::string model, tokenizer, adapter, cache, system, chat_template, language;
  int64_t max_tokens = 1024;
  std::string kv_type = "f32";
  KvWindow kv_window;
  TextOptions text;
};

/// What the program says, in both languages.
struct Phrases {
  const char* greeting;
  const char* help;
  const char* reset;
  const char* system_set;
  const char* system_none;
  const char* saved;
  const char* save_needs_file;
  const char* no_command;
  const char* stopped;
  const char* to_leave;
  const char* statistics;
};
const Phrases& phrases(std::string_view language) {
  static const Phrases english{
      "{}: type a message. /help shows the commands, Ctrl-C stops an answer, Ctrl-D ends.\n",
      "/reset, /clear  begin a new conversation; what the model is told first stays\n"
      "/system [TEXT]  set, or show, what the model is told first (/system - removes it)\n"
      "/history        show the conversation\n"
      "/save FILE      write the conversation to a file, as `heed train` reads it\n"
      "/exit           end (as Ctrl-D does)\n"
      "A \\ at the end of a line continues the message on the next; // begins one with /.\n",
      "A new conversation begins.\n",
      "The model is told: {}\n",
      "The model is told nothing first. /system TEXT sets it.\n",
      "Saved to {}\n",
      "/save needs the name of a file\n",
      "There is no {}; /help shows the commands\n",
      "\n(stopped)\n",
      "\n(Ctrl-D ends)\n",
      "({} tokens, {:.1f} per second; {} of {} tokens before them were read again)\n"};
  static const Phrases korean{
      "{}: 메시지를 입력하십시오. /help는 명령 목록, Ctrl-C는 답변 중단, Ctrl-D는 종료입니다.\n",
      "/reset, /clear  새 대화를 시작합니다. 시스템 메시지는 그대로 둡니다\n"
      "/system [글]    시스템 메시지를 정하거나 보여 줍니다 (/system - 는 지웁니다)\n"
      "/history        지금까지의 대화를 보여 줍니다\n"
      "/save 파일      대화를 `heed train`이 읽는 형식으로 저장합니다\n"
      "/exit           끝냅니다 (Ctrl-D와 같습니다)\n"
      "줄 끝의 \\ 는 다음 줄로 메시지를 잇고, // 로 시작하면 / 로 시작하는 메시지가 됩니다.\n",
      "새 대화를 시작합니다.\n",
      "시스템 메시지: {}\n",
      "시스템 메시지가 없습니다. /system 글 로 정합니다.\n",
      "{}에 저장했습니다\n",
      "/save에는 파일 이름이 필요합니다\n",
      "{} 명령은 없습니다. /help로 명령 목록을 보십시오\n",
      "\n(중단했습니다)\n",
      "\n(Ctrl-D로 끝냅니다)\n",
      "(토큰 {}개, 초당 {:.1f}개. 앞선 토큰 {}/{}개를 새로 읽었습니다)\n"};
  return language == "ko" ? korean : english;
}

/// One sitting at the terminal, or a script's lines on stdin.
class Conversation {
 public:
  Conversation(const Options& options, const Common& common)
      : options_(options),
        common_(common),
        say_(phrases(chosen_language(options.language))),
        interactive_(isatty(STDIN_FILENO) != 0) {}

  int run();

 private:
  bool read_message(std::string& message);
  bool command(const std::string& line);  // false: end
  void save(const std::string& file) const;
  void show_history() const;
  void answer(const std::string& message);
  void tell(const std::string& text) const { std::fputs(printable_lines(text).c_str(), stderr); }

  const Options& options_;
  const Common& common_;
  const Phrases& say_;
  bool interactive_;
  std::optional<ChatSession> session_;
  GenerationOptions wanted_;
  Interrupt* interrupt_ = nullptr;
  int exit_code_ = 0;
};

bool Conversation::read_message(std::string& message) {
  message.clear();
  const bool prompts = interactive_ && !common_.quiet;
  const char* prompt = "> ";
  for (std::string line;; prompt = "… ") {
    if (prompts) {
      tell(prompt);
    }
    if (!std::getline(std::cin, line)) {
      return !message.empty();
    }
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    const bool continues = !line.empty() && line.back() == '\\';
    if (continues) {
      line.back() = '\n';
    }
    message += line;
    if (!continues) {
      return true;
    }
  }
}

void Conversation::save(const std::string& file) const {
  write_file_atomically(file, "{\"messages\":" + session_->to_json() + "}\n");
  tell(fmt::format(fmt::runtime(say_.saved), printable(file)));
}

void Conversation::show_history() const {
  for (const ChatMessage& message : session_->messages()) {
    tell((message.role == "user" ? "> " : "") + message.content.value_or("") + "\n");
  }
}

bool Conversation::command(const std::string& line) {
  const size_t space = line.find_first_of(" \t");
  const std::string name = line.substr(0, space);
  const size_t begin = space == std::string::npos ? space : line.find_first_not_of(" \t", space);
  const std::string rest = begin == std::string::npos ? "" : line.substr(begin);
  if (name == "/exit" || name == "/quit") {
    return false;
  }
  if (name == "/help") {
    tell(say_.help);
  } else if (name == "/reset" || name == "/clear") {
    session_->reset();
    tell(say_.reset);
  } else if (name == "/history") {
    show_history();
  } else if (name == "/system") {
    if (!rest.empty()) {
      session_->set_system(rest == "-" ? "" : rest);
    }
    tell(session_->system().empty()
             ? say_.system_none
             : fmt::format(fmt::runtime(say_.system_set), session_->system()));
  } else if (name == "/save") {
    rest.empty() ? tell(say_.save_needs_file) : save(rest);
  } else {
    tell(fmt::format(fmt::runtime(say_.no_command), printable(name)));
    exit_code_ = interactive_ ? 0 : 2;
  }
  return true;
}

void Conversation::answer(const std::string& message) {
  std::stop_source stop;
  wanted_.run.stop = stop.get_token();
  wanted_.sampling.seed = options_.text.sampling.seed + session_->messages().size() / 2;
  if (interrupt_ != nullptr) {
    interrupt_->watch(&stop);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto show = [&](std::string_view piece) {
    if (!common_.json) {
      print_generated(piece);
    }
  };
  GeneratedText result;
  try {
    result = session_->ask(message, wanted_, show);
  } catch (...) {
    if (interrupt_ != nullptr) {
      interrupt_->watch(nullptr);
    }
    throw;
  }
  if (interrupt_ != nullptr) {
    interrupt_->watch(nullptr);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto tokens = static_cast<int64_t>(result.ids.size());
  const int64_t read = session_->prompt_tokens() - session_->reused_tokens();
  if (common_.json) {
    JsonWriter line;
    line.begin_object().field("role", "assistant").field("content", result.text);
    line.field("tokens", tokens).field("prompt_tokens", session_->prompt_tokens());
    line.field("reused_tokens", session_->reused_tokens());
    print_now(line.end_object().take() + "\n");
    return;
  }
  print_now("\n");
  if (stop.stop_requested()) {
    tell(say_.stopped);
  }
  if (interactive_ && !common_.quiet) {
    tell(fmt::format(fmt::runtime(say_.statistics), tokens,
                     static_cast<double>(tokens) / std::max(seconds, 1e-9), read,
                     session_->prompt_tokens()));
  }
}

int Conversation::run() {
  std::unique_ptr<Interrupt> interrupt;
  if (interactive_) {
    interrupt = std::make_unique<Interrupt>([this] { tell(std::string(say_.to_leave) + "> "); });
    interrupt_ = interrupt.get();
  }
  session_.emplace(
      heed::open_model(options_.model, {.tokenizer = options_.tokenizer,
                                        .load = {.in_memory = true,
                                                 .kv_type = dtype_from_name(options_.kv_type),
                                                 .kv_window = options_.kv_window,
                                                 .adapter = options_.adapter}}),
      options_.chat_template);
  wanted_ = generation_options(options_.text, session_->loaded().tokenizer);
  wanted_.max_new_tokens = options_.max_tokens;
  session_->set_system(options_.system);
  const bool cached = !options_.cache.empty();
  if (cached && std::filesystem::exists(options_.cache)) {
    session_->load_cache(options_.cache);
  }
  if (interrupt) {
    interrupt->loaded();
  }
  if (interactive_ && !common_.quiet) {
    tell(fmt::format(fmt::runtime(say_.greeting),
                     printable(std::filesystem::path(options_.model).filename().string())));
  }
  std::string message;
  while (read_message(message)) {
    if (message.find_first_not_of(" \t\n") == std::string::npos) {
      continue;
    }
    if (message.starts_with("//")) {
      message.erase(0, 1);
    } else if (message.front() == '/') {
      try {
        if (!command(message)) {
          break;
        }
      } catch (const Error& error) {  // such as a file that cannot be written
        tell(std::string("heed: ") + error.what() + "\n");
        exit_code_ = interactive_ ? 0 : 1;
      }
      continue;
    }
    try {
      answer(message);
    } catch (const Error& error) {  // such as a conversation that is too long: the session goes on
      tell(std::string("heed: ") + error.what() + "\n");
      exit_code_ = interactive_ ? 0 : 1;
    }
  }
  if (cached) {
    session_->save_cache(options_.cache);
  }
  if (interactive_ && !common_.quiet) {
    tell("\n");
  }
  return exit_code_;
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  o->text.sampling.temperature = 0.7;
  o->text.sampling.top_p = 0.95;
  table.add("MODEL", &o->model, "Model folder, run folder or .gguf with a chat template")
      .required()
      .file();
  table.add("--system", &o->system, "System message: what the model is told first");
  table.add("--max-tokens", &o->max_tokens, "Maximum number of tokens in an answer")
      .range(1, 1 << 24);
  add_kv_type(table, o->kv_type);
  add_kv_window(table, o->kv_window);
  table.add("--chat-template", &o->chat_template, "Jinja file instead of the model's own template")
      .file();
  add_tokenizer(table, o->tokenizer);
  add_adapter(table, o->adapter);
  table
      .add("--cache", &o->cache,
           "Prompt cache: read from this file if it exists, and written to it at the end")
      .file();
  table.add("--lang", &o->language, "Language (default: by the locale)").choices({"en", "ko"});
  add_text_options(table, o->text);
  return [o, &common] { return Conversation(*o, common).run(); };
}

const Registration kRegistration{
    {"chat",
     "Talk with a language model in the terminal",
     {"heed chat model.gguf", "heed chat model/ --system \"Answer in one sentence.\" --seed 1"},
     setup}};

}  // namespace
}  // namespace heed::app::chat_command
