#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/http_server.h"

namespace heed::serve {

using boost::asio::ip::tcp;
using Clock = std::chrono::steady_clock;

class Connection;

/// What all connections of a server share. Only the I/O thread touches what is not atomic.
struct HttpCore {
  HttpCore(const HttpLimits& limits_in, HttpServer::Handler handler_in,
           HttpServer::Observer observer_in)
      : limits(limits_in), handler(std::move(handler_in)), observer(std::move(observer_in)) {}

  /// Runs `task` on the I/O thread; drops it where that thread has ended.
  void post(std::function<void()> task);
  /// Closes the connection that has waited longest for a request; false where none is waiting.
  bool evict_idle();

  const HttpLimits limits;
  HttpServer::Handler handler;
  HttpServer::Observer observer;
  boost::asio::io_context io{1};
  HttpCounters counters;
  std::list<std::shared_ptr<Connection>> connections;
  uint64_t body_bytes = 0;  // promised to requests that are being read or handled
  uint64_t requests = 0;
  std::atomic<bool> draining{false};
  std::mutex posting;
  bool stopped = false;  // under `posting`
};

/// The way from an exchange, on any thread, to its connection, on the I/O thread.
struct Outbox {
  std::mutex mutex;
  std::string pending;  // framed bytes that are not being written yet
  uint64_t unsent = 0;  // pending and being written
  uint64_t body_bytes = 0;
  int status = 0;  // 0: not answered yet
  bool chunked = false;
  bool head_only = false;
  bool ended = false;
  bool flush_posted = false;
  bool keep_alive = true;
  std::function<void()> on_cancel;
  Exchange::Note note;
  std::atomic<bool> cancelled{false};
};

/// One client: reads a request, hands it to the handler, writes the answer, reads the next.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<HttpCore> core, tcp::socket socket);

  void start();
  void close();
  /// Whether it waits for a request, or for the rest of one's header.
  bool is_waiting() const { return phase_ == Phase::idle || phase_ == Phase::header; }
  bool is_between_requests() const { return phase_ == Phase::idle; }
  Clock::time_point since() const { return since_; }
  /// Writes what the outbox holds.
  void flush(const std::shared_ptr<Outbox>& outbox);
  void cancel(const std::shared_ptr<Outbox>& outbox);

  std::list<std::shared_ptr<Connection>>::iterator place;  // in HttpCore::connections

 private:
  enum class Phase { idle, header, body, handling, closing, closed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using ErrorCode = boost::system::error_code;

  void enter(Phase phase, std::chrono::milliseconds time);
  void on_deadline();
  void wait_for_request();
  void read_header();
  void on_header(ErrorCode error);
  bool accept_header();
  bool reserve_body();
  void send_continue();
  void read_body();
  void on_parse_error(ErrorCode error);
  void handle();
  HttpRequest take_request();
  void refuse(int status, const std::string& message);
  void watch();
  bool client_is_gone();
  void on_written(const std::shared_ptr<Outbox>& outbox, ErrorCode error, size_t count);
  void finish_response(const std::shared_ptr<Outbox>& outbox);
  void report(Outbox& outbox, int status);
  void linger();
  void drain_input(uint64_t left);

  std::shared_ptr<HttpCore> core_;
  tcp::socket socket_;
  boost::asio::steady_timer deadline_, write_deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::shared_ptr<Outbox> outbox_;
  std::optional<HttpRequest> logged_;  // what the access log needs after the exchange has gone
  std::string remote_, writing_;
  Phase phase_ = Phase::header;
  Clock::time_point since_, request_start_;
  uint64_t reserved_ = 0;
  bool watching_ = false;
  bool is_writing_ = false;
  char discarded_[4096];
};

}  // namespace heed::serve
