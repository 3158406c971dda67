#include "test_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <thread>

#include "heed/models.h"
#include "heed/text.h"
#include "support/data.h"

namespace heed::test {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

Tokenizer small_tokenizer(TokenizerKind kind) {
  const std::string text =
      "the quick brown fox jumps over the lazy dog . the dog sleeps and the fox runs away . "
      "one two three four five six seven eight nine ten . 안녕하세요 세계 . to be or not to be . "
      "the quick brown fox jumps over the lazy dog . one two three four five six seven .";
  TokenizerTraining training;
  training.kind = kind;
  training.vocab_size = 320;
  training.min_frequency = 1;
  const std::vector<std::string_view> texts{text};
  return train_tokenizer(texts, training);
}

void make_model(const std::filesystem::path& folder, json config, const Tokenizer& tokenizer,
                uint64_t seed) {
  config["vocab_size"] = tokenizer.vocab_size();
  std::filesystem::create_directories(folder);
  save_model(*create_model(config.dump(), seed), folder);
  tokenizer.save(folder);
}

json decoder_config() {
  return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
          {"n_embd", 32},         {"n_head", 4},
          {"n_layer", 2},         {"n_positions", 2048}};
}

json encoder_config(const std::string& architecture) {
  return {{"model_type", "bert"},     {"architectures", {architecture}}, {"hidden_size", 32},
          {"num_attention_heads", 4}, {"num_hidden_layers", 2},          {"intermediate_size", 64},
          {"type_vocab_size", 2},     {"max_position_embeddings", 64}};
}

/// Models of images and sound.
void make_sensing_models(const std::filesystem::path& folder, const Tokenizer& bpe) {
  const json vision = {{"model_type", "vit"},    {"architectures", {"ViTForImageClassification"}},
                       {"hidden_size", 16},      {"num_attention_heads", 2},
                       {"num_hidden_layers", 1}, {"intermediate_size", 32},
                       {"image_size", 16},       {"patch_size", 8},
                       {"num_channels", 3},      {"id2label", {{"0", "cat"}, {"1", "dog"}}}};
  std::filesystem::create_directories(folder / "vision");
  save_model(*create_model(vision.dump(), 8), folder / "vision");
  json encoder = vision, decoder = decoder_config();
  encoder["architectures"] = {"ViTModel"};
  decoder["vocab_size"] = bpe.vocab_size();
  decoder["add_cross_attention"] = decoder["is_decoder"] = true;
  std::filesystem::create_directories(folder / "captioner");
  const json captioner = {{"model_type", "vision-encoder-decoder"},
                          {"architectures", {"VisionEncoderDecoderModel"}},
                          {"encoder", encoder},
                          {"decoder", decoder},
                          {"decoder_start_token_id", 0},
                          {"eos_token_id", 1},
                          {"pad_token_id", 1}};
  save_model(*create_model(captioner.dump(), 9), folder / "captioner");
  bpe.save(folder / "captioner");
  // Ids beyond the tokenizer's are Whisper's own: 337 end, 338 start, 340 no timestamps.
  std::vector<int> unused;
  for (int id = static_cast<int>(bpe.vocab_size()); id < 337; ++id) {
    unused.push_back(id);
  }
  const json speech = {{"model_type", "whisper"},
                       {"architectures", {"WhisperForConditionalGeneration"}},
                       {"d_model", 16},
                       {"encoder_layers", 1},
                       {"decoder_layers", 1},
                       {"encoder_attention_heads", 2},
                       {"decoder_attention_heads", 2},
                       {"encoder_ffn_dim", 16},
                       {"decoder_ffn_dim", 16},
                       {"num_mel_bins", 8},
                       {"max_source_positions", 100},
                       {"max_target_positions", 32},
                       {"vocab_size", 460},
                       {"eos_token_id", 337},
                       {"decoder_start_token_id", 338}};
  std::filesystem::create_directories(folder / "speech");
  save_model(*create_model(speech.dump(), 10), folder / "speech");
  std::ofstream(folder / "speech" / "generation_config.json")
      << json({{"eos_token_id", 337},
               {"decoder_start_token_id", 338},
               {"no_timestamps_token_id", 340},
               {"suppress_tokens", unused}});
  bpe.save(folder / "speech");
}

}  // namespace

const std::filesystem::path& small_models() {
  static const TemporaryFolder* folder = [] {
    auto* made = new TemporaryFolder;
    const Tokenizer bpe = small_tokenizer(TokenizerKind::byte_bpe);
    const Tokenizer wordpiece = small_tokenizer(TokenizerKind::wordpiece);
    make_model(*made / "lm", decoder_config(), bpe, 1);
    make_model(*made / "lm2", decoder_config(), bpe, 2);
    make_model(*made / "chat", decoder_config(), bpe, 7);
    std::ofstream(*made / "chat" / "chat_template.jinja")
        << "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}"
           "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
           "{% if add_generation_prompt %}<assistant>{% endif %}";
    make_model(*made / "typed", decoder_config(), bpe, 7);
    std::ofstream(*made / "typed" / "chat_template.jinja")
        << "{% for message in messages %}<{{ message.role }}>{% for part in message.content %}"
           "{{ part.text }}{% endfor %}{% endfor %}<assistant>";
    make_sensing_models(made->path(), bpe);
    make_model(*made / "encoder", encoder_config("BertModel"), wordpiece, 3);
    json classifier = encoder_config("BertForSequenceClassification");
    classifier["id2label"] = {{"0", "bad"}, {"1", "fair"}, {"2", "good"}};
    make_model(*made / "classifier", classifier, wordpiece, 4);
    make_model(*made / "masked", encoder_config("BertForMaskedLM"), wordpiece, 5);
    make_model(*made / "translator",
               {{"model_type", "t5"},
                {"architectures", {"T5ForConditionalGeneration"}},
                {"d_model", 32},
                {"d_kv", 8},
                {"d_ff", 64},
                {"num_layers", 2},
                {"num_decoder_layers", 2},
                {"num_heads", 4},
                {"decoder_start_token_id", 0},
                {"eos_token_id", 1},
                {"pad_token_id", 0}},
               bpe, 6);
    return made;
  }();
  return folder->path();
}

RawConnection::RawConnection(int port, int receive_buffer) {
  descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0) {
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close();
  }
}

RawConnection::~RawConnection() { close(); }

void RawConnection::close() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

bool RawConnection::send(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count =
        ::send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) {
      return false;
    }
    sent += static_cast<size_t>(count);
  }
  return true;
}

std::string RawConnection::receive(const std::string& until, double seconds) {
  std::string bytes;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  char part[65536];
  while (until.empty() || bytes.find(until) == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd entry{descriptor_, POLLIN, 0};
    if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) <= 0) {
      break;
    }
    const ssize_t count = recv(descriptor_, part, sizeof part, 0);
    if (count <= 0) {
      break;
    }
    bytes.append(part, static_cast<size_t>(count));
  }
  return bytes;
}

bool RawConnection::closed_within(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  char part[65536];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd entry{descriptor_, POLLIN, 0};
    if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) <= 0) {
      return false;
    }
    if (recv(descriptor_, part, sizeof part, 0) <= 0) {
      return true;
    }
  }
}

Answer parse_answer(const std::string& bytes) {
  Answer answer;
  const size_t split = bytes.find("\r\n\r\n");
  if (bytes.size() < 12 || split == std::string::npos) {
    return answer;
  }
  answer.status = std::stoi(bytes.substr(9, 3));
  size_t at = bytes.find("\r\n") + 2;
  while (at < split) {
    const size_t end = bytes.find("\r\n", at);
    const std::string line = bytes.substr(at, end - at);
    const size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return std::tolower(c); });
    answer.fields[name] = line.substr(colon + 2);
    at = end + 2;
  }
  const std::string rest = bytes.substr(split + 4);
  if (answer.fields["transfer-encoding"] != "chunked") {
    answer.body = rest;
    return answer;
  }
  for (size_t from = 0; from < rest.size();) {
    const size_t end = rest.find("\r\n", from);
    const size_t length = std::stoul(rest.substr(from, end - from), nullptr, 16);
    if (length == 0) {
      break;
    }
    answer.body += rest.substr(end + 2, length);
    from = end + 2 + length + 2;
  }
  return answer;
}

std::string Answer::param() const {
  const nlohmann::json value = json()["error"]["param"];
  return value.is_string() ? value.get<std::string>() : "";
}

std::vector<nlohmann::json> Answer::events() const {
  std::vector<nlohmann::json> all;
  for (size_t at = body.find("data: "); at != std::string::npos; at = body.find("data: ", at + 1)) {
    const size_t end = body.find('\n', at);
    const std::string data = body.substr(at + 6, end - at - 6);
    if (data != "[DONE]") {
      all.push_back(nlohmann::json::parse(data));
    }
  }
  return all;
}

std::string post_request(const std::string& path, const std::string& body,
                         const std::string& fields) {
  const bool typed = fields.find("Content-Type") != std::string::npos;
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}{}Content-Length: "
      "{}\r\n\r\n{}",
      path, typed ? "" : "Content-Type: application/json\r\n", fields, body.size(), body);
}

namespace {

ServeOptions with_models(const std::vector<std::string>& models, ServeOptions options) {
  for (const std::string& model : models) {
    options.models.push_back((small_models() / model).string());
  }
  options.port = 0;
  return options;
}

}  // namespace

TestServer::TestServer(const std::vector<std::string>& models, ServeOptions options)
    : server_(with_models(models, std::move(options))) {
  server_.start();
}

Answer TestServer::get(const std::string& path, const std::string& fields) const {
  RawConnection connection(port());
  connection.send(
      fmt::format("GET {} HTTP/1.1\r\n{}Connection: close\r\n{}\r\n", path,
                  fields.find("Host:") == std::string::npos ? "Host: localhost\r\n" : "", fields));
  return parse_answer(connection.receive());
}

Answer TestServer::post_text(const std::string& path, const std::string& body,
                             const std::string& fields) const {
  RawConnection connection(port());
  connection.send(post_request(path, body, fields));
  return parse_answer(connection.receive("", 60.0));
}

Answer TestServer::post(const std::string& path, const json& body,
                        const std::string& fields) const {
  return post_text(path, body.dump(), fields);
}

double TestServer::metric(const std::string& name, const std::string& fields) const {
  const std::string text = "\n" + get("/metrics", fields).body;
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1.0 : std::stod(text.substr(at + name.size() + 2));
}

bool TestServer::metric_becomes(const std::string& name, double value, double seconds) const {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (metric(name) != value) {
    if (Clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace heed::test
