#include "faults/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "heed/models.h"
#include "heed/text.h"
#include "support/budget.h"

namespace heed::test {
namespace {

using Clock = std::chrono::steady_clock;

void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

void make_model(const std::filesystem::path& folder, TokenizerKind kind, const std::string& config,
                int64_t more_tokens = 0) {
  const std::string_view texts[] = {
      "the quick brown fox jumps over the lazy dog . one two three ."};
  TokenizerTraining training;
  training.kind = kind;
  training.vocab_size = 300;
  training.min_frequency = 1;
  const Tokenizer tokenizer = train_tokenizer(texts, training);
  std::filesystem::create_directories(folder);
  const int64_t vocabulary = tokenizer.vocab_size() + more_tokens;
  save_model(*create_model(config + std::to_string(vocabulary) + "}", 1), folder);
  tokenizer.save(folder);
}

/// A Whisper that reads two seconds at a time. Its own tokens follow the tokenizer's: end, start,
/// no speech, no timestamps, and 101 timestamps.
void make_speech_model(const std::filesystem::path& folder) {
  constexpr int64_t kMore = 105;
  make_model(folder, TokenizerKind::byte_bpe,
             R"({"model_type":"whisper","architectures":["WhisperForConditionalGeneration"],)"
             R"("d_model":16,"encoder_layers":1,"decoder_layers":1,"encoder_attention_heads":2,)"
             R"("decoder_attention_heads":2,"encoder_ffn_dim":16,"decoder_ffn_dim":16,)"
             R"("num_mel_bins":8,"max_source_positions":100,"max_target_positions":8,)"
             R"("vocab_size":)",
             kMore);
  const int64_t first = Tokenizer::load(folder).vocab_size();
  std::ofstream(folder / "generation_config.json") << fmt::format(
      R"({{"eos_token_id":{},"decoder_start_token_id":{},"no_timestamps_token_id":{}}})", first,
      first + 1, first + 3);
}

}  // namespace

const std::filesystem::path& small_models() {
  static const TemporaryFolder folder;
  static const bool made = [] {
    make_model(folder / "lm", TokenizerKind::byte_bpe,
               R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_embd":32,"n_head":4,)"
               R"("n_layer":2,"n_positions":512,"vocab_size":)");
    make_model(folder / "encoder", TokenizerKind::wordpiece,
               R"({"model_type":"bert","architectures":["BertModel"],"hidden_size":32,)"
               R"("num_attention_heads":4,"num_hidden_layers":1,"intermediate_size":64,)"
               R"("type_vocab_size":2,"max_position_embeddings":64,"vocab_size":)");
    make_model(folder / "classifier", TokenizerKind::wordpiece,
               R"({"model_type":"bert","architectures":["BertForSequenceClassification"],)"
               R"("hidden_size":32,"num_attention_heads":4,"num_hidden_layers":1,)"
               R"("intermediate_size":64,"type_vocab_size":2,"max_position_embeddings":64,)"
               R"("id2label":{"0":"a\u001b[31m\n\u0007","1":"b\u001b[31m\n\u0007"},)"
               R"("vocab_size":)");
    make_speech_model(folder / "speech");
    return true;
  }();
  static_cast<void>(made);
  return folder.path();
}

ServerProcess::ServerProcess(const std::vector<std::string>& options,
                             const std::vector<std::pair<int, uint64_t>>& limits) {
  const std::string name = program().native();
  std::vector<std::string> words = {
      name, "serve", "lm=" + (small_models() / "lm").native(), "--port", "0", "--page", "off"};
  words.insert(words.end(), options.begin(), options.end());
  const std::string log = folder_ / "err";
  process_ = fork();
  if (process_ == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDERR_FILENO);
    dup2(out, STDOUT_FILENO);
    if constexpr (kSanitized) {  // the leak detector starts a tracer, which the sandbox forbids
      setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    }
    for (const auto& [which, value] : limits) {
      const rlimit limit{value, value};
      setrlimit(static_cast<__rlimit_resource_t>(which), &limit);
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    execv(name.c_str(), arguments.data());
    _exit(121);
  }
  const auto start = Clock::now();
  while (alive() && Clock::now() - start < std::chrono::seconds(60) && port_ == 0) {
    const std::string text = std::filesystem::exists(log) ? read_file(log) : std::string();
    const size_t at = text.find("listening on http://");
    const size_t colon = at == std::string::npos ? at : text.find(':', at + 20);
    if (colon != std::string::npos && text.find('\n', colon) != std::string::npos) {
      port_ = std::atoi(text.c_str() + colon + 1);
    }
    wait_a_little();
  }
}

ServerProcess::~ServerProcess() {
  if (process_ > 0) {
    end(SIGKILL);
  }
}

bool ServerProcess::alive() const {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) == process_) {
    process_ = -1;
  }
  return process_ > 0;
}

int ServerProcess::end(int signal) {
  if (process_ <= 0) {
    return -1;
  }
  kill(process_, signal);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int64_t ServerProcess::resident_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/status", process_));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t at = text.find("VmRSS:");
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + 6) * 1024;
}

int open_connection(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(connection);
    return -1;
  }
  return connection;
}

bool send_all(int connection, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) {
      return false;
    }
    sent += static_cast<size_t>(count);
  }
  return true;
}

std::string post_text(const std::string& path, const std::string& body, const std::string& fields) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
      path, body.size(), fields, body);
}

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
}

std::string ServerProcess::exchange(const std::string& bytes, double seconds) const {
  const int connection = open_connection(port_);
  std::string answer;
  if (connection < 0) {
    return answer;
  }
  send_all(connection, bytes);
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < until) {
    pollfd wait{connection, POLLIN, 0};
    if (poll(&wait, 1, 50) > 0) {
      char block[8192];
      const ssize_t count = recv(connection, block, sizeof(block), 0);
      if (count <= 0) {
        break;
      }
      answer.append(block, static_cast<size_t>(count));
    }
  }
  close(connection);
  return answer;
}

int ServerProcess::status(const std::string& bytes, double seconds) const {
  return status_of(exchange(bytes, seconds));
}

std::string ServerProcess::post(const std::string& path, const std::string& body,
                                const std::string& fields) const {
  return exchange(post_text(path, body, fields));
}

int ServerProcess::post_status(const std::string& path, const std::string& body,
                               const std::string& fields) const {
  return status_of(post(path, body, fields));
}

std::string ServerProcess::get(const std::string& path, const std::string& fields) const {
  return exchange(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n",
                              path, fields));
}

int ServerProcess::get_status(const std::string& path, const std::string& fields) const {
  return status_of(get(path, fields));
}

double ServerProcess::metric(const std::string& name) const {
  const std::string text = get("/metrics");
  for (size_t at = text.find("\n" + name); at != std::string::npos;
       at = text.find("\n" + name, at + 1)) {
    const char next = text[at + 1 + name.size()];
    if (next == ' ' || next == '{') {
      return std::atof(text.c_str() + text.find(' ', at + 1));
    }
  }
  return -1.0;
}

bool ServerProcess::metric_becomes(const std::string& name, double value, double seconds) const {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < until) {
    if (metric(name) == value) {
      return true;
    }
    wait_a_little();
  }
  return false;
}

}  // namespace heed::test
