#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heed/serve.h"

namespace heed::test {

/// A folder with small models of every kind, with random weights, made once per process: lm and lm2
/// (decoders with 2048 positions), chat (one with a template), typed (one whose template reads
/// lists of parts), encoder, classifier, masked, translator, vision (a classifier of images),
/// captioner, speech.
const std::filesystem::path& small_models();

/// A connection of bytes, for requests that no client would send.
class RawConnection {
 public:
  /// `receive_buffer` > 0 makes the system keep no more than about that for this reader.
  explicit RawConnection(int port, int receive_buffer = 0);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  /// False where the server has closed.
  bool send(const std::string& bytes);
  /// What comes until the server closes, `until` has come, or the time is up.
  std::string receive(const std::string& until = {}, double seconds = 10.0);
  /// Whether the server closes within that time.
  bool closed_within(double seconds);
  void close();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

struct Answer {
  int status = 0;
  std::map<std::string, std::string> fields;  ///< names in small letters
  std::string body;

  nlohmann::json json() const { return nlohmann::json::parse(body); }
  std::string param() const;                   ///< of an error; "" for null
  std::vector<nlohmann::json> events() const;  ///< of a stream, without [DONE]
};

/// A server in this process with `options` and the models named, on a free port.
class TestServer {
 public:
  explicit TestServer(const std::vector<std::string>& models = {"lm"}, ServeOptions options = {});

  Server& server() { return server_; }
  int port() const { return server_.port(); }
  Answer get(const std::string& path, const std::string& fields = {}) const;
  Answer post(const std::string& path, const nlohmann::json& body,
              const std::string& fields = {}) const;
  Answer post_text(const std::string& path, const std::string& body,
                   const std::string& fields = {}) const;
  /// A number of /metrics.
  double metric(const std::string& name, const std::string& fields = {}) const;
  /// Waits until a number of /metrics is `value`; false where it does not become so.
  bool metric_becomes(const std::string& name, double value, double seconds = 60.0) const;

 private:
  Server server_;
};

/// Splits what a server sent into status, fields and body (chunks put together).
Answer parse_answer(const std::string& bytes);

std::string post_request(const std::string& path, const std::string& body,
                         const std::string& fields = {});

}  // namespace heed::test
