// `heed chat` and `heed generate --chat`, through pipes and through a pseudo-terminal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "../generate/tokenizers.h"
#include "base/file.h"
#include "heed/models.h"
#include "support/data.h"

namespace heed::test {
namespace {

using nlohmann::json;

/// A small decoder with a chat template; its context is long enough to be interrupted in.
std::filesystem::path make_chat_model(const std::filesystem::path& folder, int context = 100000) {
  const Tokenizer tokenizer = byte_level_tokenizer();
  save_model(*create_model(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 128,
      "initializer_range": 0.4, "eos_token_id": 0, "max_position_embeddings": )" +
                               std::to_string(context) + R"(, "vocab_size": )" +
                               std::to_string(tokenizer.vocab_size()) + "}",
                           3),
             folder);
  tokenizer.save(folder);
  write_file_atomically(folder / "chat_template.jinja",
                        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                        "{% if add_generation_prompt %}[assistant] {% endif %}");
  return folder;
}

std::string shell(const std::string& command, int expected = 0) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    out.append(buffer, n);
  }
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), expected) << command << "\n" << out;
  return out;
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(json::parse(line));
  }
  return lines;
}

/// JSON shows bytes that are no UTF-8, of which a random model writes many, in one way.
/// For a shell: the build folder may have spaces.
std::string quoted_program() { return "'" + program().string() + "'"; }

std::vector<json> lines_of_shell(const std::string& command) { return lines_of(shell(command)); }

TEST(Chat, LinesOfAPipeAreTurnsOfOneConversation) {
  const TemporaryFolder folder;
  make_chat_model(folder.path());
  const std::string chat = quoted_program() + " chat " + folder.path().string() +
                           " --temperature 0 --max-tokens 12 --json --lang en";
  const std::string saved = (folder / "talk.json").string();
  const auto answers = lines_of(
      shell("printf 'Lily and Tom\\nand then \\\\\\nwhat?\\n\\n/save " + saved +
            "\\n/reset\\nLily and Tom\\n//x\\n/exit\\nnever read\\n' | " + chat + " 2>/dev/null"));
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0]["role"], "assistant");
  EXPECT_EQ(answers[0]["tokens"], 12);
  EXPECT_EQ(answers[0]["reused_tokens"], 0);
  // The second question reads again neither the first one nor what was said to it.
  EXPECT_GT(answers[1]["reused_tokens"].get<int>(), answers[0]["prompt_tokens"].get<int>() - 3);
  EXPECT_EQ(answers[2]["content"], answers[0]["content"]) << "the same beginning after /reset";
  const json talk = json::parse(read_file(saved))["messages"];
  ASSERT_EQ(talk.size(), 4u);
  EXPECT_EQ(talk[0], (json{{"role", "user"}, {"content", "Lily and Tom"}}));
  EXPECT_EQ(talk[1], (json{{"role", "assistant"}, {"content", answers[0]["content"]}}));
  EXPECT_EQ(talk[2]["content"], "and then \nwhat?");
  // Kept keys and values change nothing: the whole conversation at once gives the same answer.
  const std::string prompt = "[user] Lily and Tom\n[assistant] " +
                             answers[0]["content"].get<std::string>() +
                             "\n[user] and then \nwhat?\n[assistant] ";
  write_file_atomically(folder / "prompt", prompt);
  EXPECT_EQ(lines_of_shell(quoted_program() + " generate " + folder.path().string() +
                           " --max-tokens 12 --json --prompt \"$(cat " +
                           (folder / "prompt").string() + ")\"")[0]["text"],
            answers[1]["content"]);
}

TEST(Chat, ResetKeepsTheSystemMessage) {
  const TemporaryFolder folder;
  make_chat_model(folder.path());
  const std::string chat = quoted_program() + " chat " + folder.path().string() +
                           " --system 'be brief' --temperature 0 --max-tokens 9 --json --lang en";
  const std::string saved = (folder / "talk.json").string();
  const auto answers =
      lines_of(shell("printf 'Lily\\n/reset\\nLily\\n/clear\\n/system -\\nLily\\n/save " + saved +
                     "\\n' | " + chat + " 2>/dev/null"));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[1]["content"], answers[0]["content"]);
  EXPECT_EQ(answers[1]["prompt_tokens"], answers[0]["prompt_tokens"]);
  EXPECT_LT(answers[2]["prompt_tokens"].get<int>(), answers[0]["prompt_tokens"].get<int>());
  EXPECT_EQ(json::parse(read_file(saved))["messages"][0]["role"], "user");
}

TEST(Chat, AConversationMayOutgrowTheContext) {
  const TemporaryFolder folder;
  make_chat_model(folder.path(), 256);
  const std::string chat = quoted_program() + " chat " + folder.path().string() +
                           " --temperature 0 --max-tokens 50 --ignore-eos --json --lang en";
  const std::string talk = "for i in $(seq 12); do echo 'Lily and Tom'; done | " + chat;
  EXPECT_NE(shell(talk + " 2>&1", 1).find("/reset begins a new one"), std::string::npos);
  const auto answers = lines_of(shell(talk + " --kv-window 64 2>/dev/null"));
  ASSERT_EQ(answers.size(), 12u);
  EXPECT_GT(answers[11]["prompt_tokens"].get<int>(), 11 * 50);
}

TEST(Chat, GenerateAnswersByTheTemplate) {
  const TemporaryFolder folder;
  make_chat_model(folder.path());
  const std::string model = folder.path().string();
  const auto one = lines_of(shell("printf 'Lily\\n' | " + quoted_program() + " chat " + model +
                                  " --system 'be brief' --temperature 0 --max-tokens 9 --json"));
  const std::string generate =
      quoted_program() + " generate " + model + " --max-tokens 9 --chat --system 'be brief' ";
  EXPECT_EQ(lines_of_shell(generate + "--json --prompt Lily")[0]["text"], one[0]["content"]);
  const auto lines = lines_of(shell("printf 'Lily\\nTom\\n' | " + generate + "--json"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["text"], one[0]["content"]);
  const std::string plain = quoted_program() + " generate " + model + " --max-tokens 9 --prompt ";
  EXPECT_EQ(lines_of_shell(
                plain +
                "\"$(printf '[system] be brief\\n[user] Lily\\n[assistant] ')\" --json")[0]["text"],
            one[0]["content"]);
  EXPECT_NE(shell(plain + "x --system y 2>&1", 2).find("--chat"), std::string::npos);
  std::filesystem::remove(folder / "chat_template.jinja");
  EXPECT_NE(shell(generate + "--prompt Lily 2>&1", 3).find("template"), std::string::npos);
}

/// A program on a pseudo-terminal.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments) {
    child_ = forkpty(&master_, nullptr, nullptr, nullptr);
    if (child_ == 0) {
      std::vector<char*> argv;
      for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
      }
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Terminal() {
    close(master_);
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& text) {
    ASSERT_EQ(write(master_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// What is shown up to and with `text`; fails after a minute.
  std::string wait_for(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      const size_t found = shown_.find(text);
      if (found != std::string::npos) {
        const std::string before = shown_.substr(0, found + text.size());
        shown_.erase(0, found + text.size());
        return before;
      }
      if (std::chrono::steady_clock::now() > deadline || !read_more(1000)) {
        ADD_FAILURE() << "waiting for '" << text << "' there is: " << shown_;
        return shown_;
      }
    }
  }
  /// The exit code, once the program has ended.
  int exit_code() {
    while (read_more(20000)) {
    }
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    child_ = fork();  // something for the destructor
    if (child_ == 0) {
      _exit(0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  bool read_more(int milliseconds) {
    pollfd ready{master_, POLLIN, 0};
    char buffer[4096];
    if (poll(&ready, 1, milliseconds) == 0) {
      return true;
    }
    const ssize_t got = read(master_, buffer, sizeof buffer);
    if (got > 0) {
      shown_.append(buffer, static_cast<size_t>(got));
    }
    return got > 0;
  }

  int master_ = -1;
  pid_t child_ = -1;
  std::string shown_;
};

TEST(Chat, CtrlCStopsTheAnswerAndKeepsTheSession) {
  const TemporaryFolder folder;
  make_chat_model(folder.path());
  Terminal terminal({program().string(), "chat", folder.path().string(), "--ignore-eos",
                     "--max-tokens", "90000", "--lang", "en"});
  EXPECT_NE(terminal.wait_for("> ").find("/help shows the commands"), std::string::npos);
  terminal.type("Lily\n");
  terminal.wait_for("Lily\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the answer is being written
  terminal.type("\x03");
  terminal.wait_for("(stopped)");
  EXPECT_NE(terminal.wait_for("> ").find("tokens before them were read again"), std::string::npos);
  terminal.type("\x03");  // nothing to stop
  terminal.wait_for("(Ctrl-D ends)");
  terminal.type("/history\n");
  EXPECT_NE(terminal.wait_for("> Lily\r\n").find("/history"), std::string::npos);
  terminal.type("/nonsense\n");
  terminal.wait_for("There is no /nonsense");
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST(Chat, SpeaksKorean) {
  const TemporaryFolder folder;
  make_chat_model(folder.path());
  Terminal terminal({program().string(), "chat", folder.path().string(), "--lang", "ko"});
  terminal.wait_for("메시지를 입력하십시오");
  terminal.wait_for("> ");
  terminal.type("/help\n");
  terminal.wait_for("새 대화를 시작합니다");
  terminal.wait_for("> ");
  terminal.type("/system 짧게 답하십시오\n");
  terminal.wait_for("시스템 메시지: 짧게 답하십시오");
  terminal.wait_for("> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_code(), 0);
}

}  // namespace
}  // namespace heed::test
