#include "serve/http_exchange.h"

#include <fmt/format.h>

#include <ctime>

namespace heed::serve {
namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

}  // namespace

std::string format_head(const HttpResponse& response, int64_t length, bool chunked, bool keep_alive,
                        const std::string& request_id) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                                 reason_phrase(response.status), http_date());
  if (!response.content_type.empty()) {
    head += "Content-Type: " + response.content_type + "\r\n";
  }
  head += "X-Content-Type-Options: nosniff\r\n";  // model output is never taken for a page
  for (const auto& [name, value] : response.fields) {
    head.append(name).append(": ").append(value).append("\r\n");
  }
  if (!request_id.empty()) {
    head += "x-request-id: " + request_id + "\r\n";
  }
  if (length >= 0) {
    head += fmt::format("Content-Length: {}\r\n", length);
  } else if (chunked) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

HttpExchange::HttpExchange(std::shared_ptr<HttpCore> core, std::shared_ptr<Connection> connection,
                           std::shared_ptr<Outbox> outbox, HttpRequest request)
    : core_(std::move(core)), connection_(std::move(connection)), outbox_(std::move(outbox)) {
  request_ = std::move(request);
}

HttpExchange::~HttpExchange() {
  bool answered = false, ended = false;
  {
    const std::lock_guard lock(outbox_->mutex);
    answered = outbox_->status != 0;
    ended = outbox_->ended;
    outbox_->on_cancel = nullptr;
  }
  try {
    if (!answered) {
      respond(error_response(500, "the request was dropped; this is a fault of the server"));
    } else if (!ended) {
      // A stream without its end: the client must not take it for a complete one.
      core_->post([connection = connection_] { connection->close(); });
    }
  } catch (const std::exception&) {
    // No memory to answer with: the connection's deadline closes it.
  }
}

void HttpExchange::respond(HttpResponse response) {
  {
    const std::lock_guard lock(outbox_->mutex);
    if (outbox_->status != 0 || outbox_->cancelled) {
      return;
    }
    outbox_->status = response.status;
    outbox_->keep_alive = outbox_->keep_alive && !core_->draining;
    outbox_->pending = format_head(response, static_cast<int64_t>(response.body.size()), false,
                                   outbox_->keep_alive, request_.id);
    if (!outbox_->head_only) {
      outbox_->pending += response.body;
      outbox_->body_bytes = response.body.size();
    }
    outbox_->unsent = outbox_->pending.size();
    outbox_->ended = true;
  }
  post_flush();
}

void HttpExchange::begin_stream(HttpResponse head) {
  {
    const std::lock_guard lock(outbox_->mutex);
    if (outbox_->status != 0 || outbox_->cancelled) {
      return;
    }
    outbox_->status = head.status;
    outbox_->keep_alive = outbox_->keep_alive && outbox_->chunked && !core_->draining;
    outbox_->pending += format_head(head, -1, outbox_->chunked, outbox_->keep_alive, request_.id);
    outbox_->unsent = outbox_->pending.size();
  }
  post_flush();
}

bool HttpExchange::write(std::string_view piece) {
  bool wake = false, too_slow = false;
  {
    const std::lock_guard lock(outbox_->mutex);
    if (outbox_->cancelled || outbox_->ended || outbox_->status == 0) {
      return false;
    }
    if (piece.empty() || outbox_->head_only) {
      return true;
    }
    const size_t before = outbox_->pending.size();
    if (outbox_->chunked) {
      outbox_->pending += fmt::format("{:x}\r\n", piece.size());
      outbox_->pending += piece;
      outbox_->pending += "\r\n";
    } else {
      outbox_->pending += piece;
    }
    outbox_->unsent += outbox_->pending.size() - before;
    outbox_->body_bytes += piece.size();
    too_slow = outbox_->unsent > core_->limits.unsent_bytes + piece.size();
    wake = !outbox_->flush_posted;
    outbox_->flush_posted = true;
  }
  if (too_slow) {
    core_->post([connection = connection_] { connection->close(); });
    return false;
  }
  if (wake) {
    core_->post([connection = connection_, outbox = outbox_] { connection->flush(outbox); });
  }
  return true;
}

void HttpExchange::end_stream() {
  {
    const std::lock_guard lock(outbox_->mutex);
    if (outbox_->ended || outbox_->status == 0) {
      return;
    }
    if (outbox_->chunked && !outbox_->head_only) {
      outbox_->pending += "0\r\n\r\n";
      outbox_->unsent += 5;
    }
    outbox_->ended = true;
  }
  post_flush();
}

void HttpExchange::on_cancel(std::function<void()> callback) {
  {
    const std::lock_guard lock(outbox_->mutex);
    if (!outbox_->cancelled) {
      outbox_->on_cancel = std::move(callback);
      return;
    }
  }
  callback();
}

void HttpExchange::annotate(const std::function<void(Note&)>& change) {
  const std::lock_guard lock(outbox_->mutex);
  change(outbox_->note);
}

void HttpExchange::post_flush() {
  {
    const std::lock_guard lock(outbox_->mutex);
    outbox_->flush_posted = true;
  }
  core_->post([connection = connection_, outbox = outbox_] { connection->flush(outbox); });
}

}  // namespace heed::serve
