#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http_message.h"

namespace heed::serve {

/// Bounds on what a client may use. Every time is the total for that phase, not the time between
/// two bytes, so a client that sends one byte now and then gains nothing.
struct HttpLimits {
  uint64_t header_bytes = 32 << 10;       ///< request line and header fields; beyond: 431
  uint64_t target_bytes = 8 << 10;        ///< request target; beyond: 414
  uint64_t body_bytes = 16 << 20;         ///< of one request; beyond: 413
  uint64_t total_body_bytes = 256 << 20;  ///< of all requests being read; beyond: 429
  uint64_t unsent_bytes = 1 << 20;        ///< of a stream whose client does not read: cancelled
  int64_t connections = 1024;             ///< beyond: the longest idle one is closed for a new one
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{60'000};
  std::chrono::milliseconds idle_time{75'000};      ///< between the requests of a connection
  std::chrono::milliseconds write_time{30'000};     ///< for one piece of a response
  std::chrono::milliseconds request_time{600'000};  ///< from the complete request to its last byte
};

/// Numbers of the HTTP layer, for /metrics.
struct HttpCounters {
  std::atomic<int64_t> open_connections{0};
  std::atomic<int64_t> accepted{0};
  std::atomic<int64_t> evicted{0};          ///< idle connections closed to make room
  std::atomic<int64_t> accept_failures{0};  ///< EMFILE and the like
  std::atomic<int64_t> protocol_errors{0};  ///< requests refused before a route saw them
  std::atomic<int64_t> cancelled{0};        ///< requests whose client went away or was too slow
};

/// An asynchronous HTTP/1.1 server: one I/O thread for all connections. It frames messages, keeps
/// the limits and detects clients that go away; what is asked for is the handler's business.
class HttpServer {
 public:
  /// Called on the I/O thread with every valid request; must return quickly.
  using Handler = std::function<void(const ExchangePtr&)>;
  /// Called on the I/O thread when an exchange has ended, with its status and body bytes.
  struct Completion {
    const HttpRequest& request;
    const Exchange::Note& note;
    int status;
    uint64_t bytes;
    std::chrono::steady_clock::duration duration;
  };
  using Observer = std::function<void(const Completion&)>;

  HttpServer(const HttpLimits& limits, Handler handler, Observer observer = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Binds and listens; `host` is an IP address. Port 0 picks a free one. Throws Error.
  void listen(const std::string& host, int port);
  /// Listens on a socket that is already bound and listening (socket activation). Throws Error.
  void adopt(int socket);
  int port() const;
  std::string host() const;

  void start();
  /// Takes no more connections, closes idle ones and lets requests finish.
  void drain();
  /// Waits until every connection is closed; false where that takes longer than `timeout`.
  bool wait_until_drained(std::chrono::milliseconds timeout);
  /// Cancels what is left and ends the I/O thread.
  void stop();

  const HttpCounters& counters() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace heed::serve
