#include "serve/http_connection.h"

#include <fmt/format.h>

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "serve/http_exchange.h"
#include "serve/http_malformed.h"

namespace heed::serve {
namespace http = boost::beast::http;
namespace asio = boost::asio;
namespace {

constexpr size_t kReadAhead = 64 << 10;
/// Bodies up to this size are not counted against HttpLimits::total_body_bytes.
constexpr uint64_t kSmallBody = 64 << 10;

}  // namespace

Connection::Connection(std::shared_ptr<HttpCore> core, tcp::socket socket)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      deadline_(core_->io),
      write_deadline_(core_->io),
      buffer_(core_->limits.header_bytes + kReadAhead) {
  boost::system::error_code ignored;
  const auto endpoint = socket_.remote_endpoint(ignored);
  remote_ = ignored ? "unknown" : endpoint.address().to_string();
}

void Connection::start() { read_header(); }

void Connection::close() {
  if (phase_ == Phase::closed) {
    return;
  }
  const auto self = shared_from_this();  // the list may hold the last reference
  phase_ = Phase::closed;
  if (outbox_) {
    cancel(outbox_);
    report(*outbox_, 499);
  }
  ErrorCode ignored;
  deadline_.cancel(ignored);
  write_deadline_.cancel(ignored);
  socket_.close(ignored);
  core_->body_bytes -= std::exchange(reserved_, 0);
  core_->counters.open_connections -= 1;
  core_->connections.erase(place);
}

void Connection::enter(Phase phase, std::chrono::milliseconds time) {
  phase_ = phase;
  since_ = Clock::now();
  deadline_.expires_after(time);  // cancels the wait for the phase before
  deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error && self->deadline_.expiry() <= Clock::now()) {
      self->on_deadline();
    }
  });
}

void Connection::on_deadline() {
  switch (phase_) {
    case Phase::header:
      if (buffer_.size() > 0 || (parser_ && parser_->got_some())) {
        refuse(408, "the request's header did not arrive in time");
        return;
      }
      break;
    case Phase::body:
      refuse(408, "the request's body did not arrive in time");
      return;
    case Phase::handling:
      if (outbox_) {
        bool answered = false;
        {
          const std::lock_guard lock(outbox_->mutex);
          answered = outbox_->status != 0;
        }
        if (!answered) {
          const auto old = outbox_;
          cancel(old);
          refuse(504, "the request took longer than the server allows; ask for fewer tokens");
          return;
        }
      }
      break;
    default:
      break;
  }
  close();
}

void Connection::wait_for_request() {
  if (core_->draining) {
    linger();
    return;
  }
  if (buffer_.size() > 0) {
    read_header();
    return;
  }
  enter(Phase::idle, core_->limits.idle_time);
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    if (error || self->phase_ != Phase::idle) {
      self->phase_ == Phase::idle ? self->close() : void();
      return;
    }
    self->read_header();
  });
}

void Connection::read_header() {
  enter(Phase::header, core_->limits.header_time);
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_->limits.header_bytes));
  parser_->body_limit(core_->limits.body_bytes);
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, size_t) {
                            if (self->phase_ == Phase::header) {
                              self->on_header(error);
                            }
                          });
}

void Connection::on_header(ErrorCode error) {
  request_start_ = Clock::now();
  if (error) {
    on_parse_error(error);
    return;
  }
  if (!accept_header() || !reserve_body()) {
    return;
  }
  if (http::token_list{parser_->get()[http::field::expect]}.exists("100-continue")) {
    send_continue();
  } else {
    read_body();
  }
}

/// Refuses what Beast lets pass and a strict server must not: what another server in front could
/// read in another way.
bool Connection::accept_header() {
  const auto& message = parser_->get();
  if (message.target().size() > core_->limits.target_bytes) {
    refuse(414, fmt::format("the request target has {} bytes; at most {} are allowed",
                            message.target().size(), core_->limits.target_bytes));
    return false;
  }
  if (message.version() != 11 && message.version() != 10) {
    refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    return false;
  }
  const auto length = message[http::field::content_length];
  if (message.count(http::field::content_length) > 1 ||
      length.find_first_not_of("0123456789") != length.npos) {
    refuse(400, "Content-Length must be one number, given once");
    return false;
  }
  const size_t encodings = message.count(http::field::transfer_encoding);
  if (encodings > 0 &&
      (encodings > 1 || message.count(http::field::content_length) > 0 || message.version() != 11 ||
       !equal_ignoring_case({message[http::field::transfer_encoding].data(),
                             message[http::field::transfer_encoding].size()},
                            "chunked"))) {
    refuse(400, "Transfer-Encoding must be chunked, alone and without Content-Length");
    return false;
  }
  const size_t hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() == 11)) {
    refuse(400, "exactly one Host header is needed");
    return false;
  }
  const std::string_view target(message.target().data(), message.target().size());
  if (!target.starts_with('/') && target != "*" && !absolute_target(target)) {
    refuse(400, "the request target must begin with /, http:// or https://");
    return false;
  }
  return true;
}

bool Connection::reserve_body() {
  const auto length = parser_->content_length();
  if (length && *length > core_->limits.body_bytes) {
    refuse(413, fmt::format("the body has {} bytes; at most {} are allowed", *length,
                            core_->limits.body_bytes));
    return false;
  }
  const uint64_t wanted = parser_->chunked() ? core_->limits.body_bytes : length.value_or(0);
  if (wanted <= kSmallBody) {
    return true;
  }
  if (core_->body_bytes + wanted > core_->limits.total_body_bytes) {
    refuse(429, "too many large requests are being received; try again");
    return false;
  }
  core_->body_bytes += wanted;
  reserved_ = wanted;
  return true;
}

void Connection::send_continue() {
  enter(Phase::body, core_->limits.body_time);
  static const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](ErrorCode error, size_t) {
                      if (self->phase_ == Phase::body) {
                        error ? self->close() : self->read_body();
                      }
                    });
}

void Connection::read_body() {
  if (parser_->is_done()) {
    handle();
    return;
  }
  enter(Phase::body, core_->limits.body_time);
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode error, size_t) {
                     if (self->phase_ != Phase::body) {
                       return;
                     }
                     error ? self->on_parse_error(error) : self->handle();
                   });
}

void Connection::on_parse_error(ErrorCode error) {
  const std::string_view begun(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    const bool in_target =
        parser_->get().target().empty() && begun.find('\n') == std::string_view::npos;
    in_target
        ? refuse(414, "the request target is too long")
        : refuse(431, fmt::format("the header has more than {} bytes", core_->limits.header_bytes));
  } else if (error == http::error::body_limit) {
    refuse(413, fmt::format("the body has more than {} bytes", core_->limits.body_bytes));
  } else if (error == http::error::bad_version && has_other_version(begun)) {
    refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  } else if (error == http::error::end_of_stream || error == http::error::partial_message ||
             error.category() != http::make_error_code(http::error::bad_method).category()) {
    close();  // the client went away
  } else {
    refuse(400, fmt::format("this is not a valid HTTP request: {}", malformed_part(error)));
  }
}

HttpRequest Connection::take_request() {
  auto message = parser_->release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  for (const auto& field : message) {
    request.fields.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  if (const auto absolute = absolute_target(request.target)) {
    // Its authority stands above Host (RFC 9112, 3.2.2).
    std::erase_if(request.fields,
                  [](const auto& field) { return equal_ignoring_case(field.first, "Host"); });
    request.fields.emplace_back("Host", absolute->authority);
    request.target = absolute->target;
  }
  request.body = std::move(message.body());
  request.remote = remote_;
  const std::string_view target = request.target;
  const size_t question = target.find('?');
  if (!percent_decode(target.substr(0, question), request.path)) {
    request.path = "/%";  // a path that no route has
  }
  request.query = question == std::string_view::npos ? "" : target.substr(question + 1);
  request.id = fmt::format("req-{:x}", ++core_->requests);
  return request;
}

void Connection::handle() {
  auto outbox = std::make_shared<Outbox>();
  const auto& message = parser_->get();
  outbox->keep_alive = message.keep_alive();
  outbox->chunked = message.version() == 11;
  outbox->head_only = message.method() == http::verb::head;
  outbox_ = outbox;
  enter(Phase::handling, core_->limits.request_time);
  HttpRequest request = take_request();
  logged_.emplace();
  logged_->method = request.method;
  logged_->path = request.path;
  logged_->remote = request.remote;
  logged_->id = request.id;
  parser_.reset();
  const auto exchange =
      std::make_shared<HttpExchange>(core_, shared_from_this(), outbox, std::move(request));
  core_->handler(exchange);
  watch();
}

/// Answers and closes: the connection's framing is not to be trusted any more, or its time is up.
void Connection::refuse(int status, const std::string& message) {
  core_->counters.protocol_errors += 1;
  core_->body_bytes -= std::exchange(reserved_, 0);
  auto outbox = std::make_shared<Outbox>();
  const HttpResponse response = error_response(status, message);
  outbox->status = status;
  outbox->keep_alive = false;
  outbox->ended = true;
  outbox->pending =
      format_head(response, static_cast<int64_t>(response.body.size()), false, false, "") +
      response.body;
  outbox->unsent = outbox->pending.size();
  outbox->body_bytes = response.body.size();
  outbox_ = outbox;
  if (phase_ != Phase::handling) {
    logged_.emplace();
    logged_->remote = remote_;
    logged_->method = "-";
    logged_->path = "-";
  }
  outbox->note.error = message;
  enter(Phase::handling, core_->limits.write_time);
  flush(outbox);
}

}  // namespace heed::serve
