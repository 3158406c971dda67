#include <sys/socket.h>

#include <boost/asio/write.hpp>
#include <cerrno>

#include "serve/http_connection.h"

// The second half of a connection's life: the answer is written, the client is watched, the
// connection ends.

namespace heed::serve {
namespace asio = boost::asio;
namespace {

constexpr std::chrono::milliseconds kLingerTime{2000};
constexpr uint64_t kLingerBytes = 4 << 20;

}  // namespace

/// Notices a client that goes away while its request is handled.
void Connection::watch() {
  if (watching_) {
    return;
  }
  watching_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    self->watching_ = false;
    if (self->phase_ != Phase::handling || !self->outbox_) {
      return;
    }
    bool answered = false;
    {
      const std::lock_guard lock(self->outbox_->mutex);
      answered = self->outbox_->ended;  // one that only sends no more gets its answer
    }
    if (!answered && (error || self->client_is_gone())) {
      self->close();
    }
  });
}

bool Connection::client_is_gone() {
  char byte = 0;
  const ssize_t count = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count > 0) {
    return false;  // a request behind this one; it waits its turn
  }
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    watch();
    return false;
  }
  return true;
}

void Connection::cancel(const std::shared_ptr<Outbox>& outbox) {
  std::function<void()> callback;
  {
    const std::lock_guard lock(outbox->mutex);
    if (!outbox->ended) {
      core_->counters.cancelled += 1;
    }
    outbox->cancelled = true;
    callback = std::move(outbox->on_cancel);
    outbox->on_cancel = nullptr;
  }
  if (callback) {
    callback();
  }
}

void Connection::flush(const std::shared_ptr<Outbox>& outbox) {
  if (outbox != outbox_ || is_writing_ || phase_ != Phase::handling) {
    return;
  }
  bool done = false;
  {
    const std::lock_guard lock(outbox->mutex);
    outbox->flush_posted = false;
    writing_.clear();
    writing_.swap(outbox->pending);
    done = writing_.empty() && outbox->ended;
  }
  if (done) {
    finish_response(outbox);
    return;
  }
  if (writing_.empty()) {
    return;
  }
  is_writing_ = true;
  write_deadline_.expires_after(core_->limits.write_time);
  write_deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error && self->is_writing_ && self->write_deadline_.expiry() <= Clock::now()) {
      self->close();
    }
  });
  asio::async_write(socket_, asio::buffer(writing_),
                    [self = shared_from_this(), outbox](ErrorCode error, size_t count) {
                      self->on_written(outbox, error, count);
                    });
}

void Connection::on_written(const std::shared_ptr<Outbox>& outbox, ErrorCode error, size_t count) {
  is_writing_ = false;
  if (phase_ == Phase::closed) {
    return;
  }
  ErrorCode ignored;
  write_deadline_.cancel(ignored);
  if (error) {
    close();
    return;
  }
  {
    const std::lock_guard lock(outbox->mutex);
    outbox->unsent -= count;
  }
  const auto current = outbox_;  // flush() may let the member go
  flush(current);                // what came meanwhile; after a refusal, the refusal
}

/// Tells the observer once how a request has ended.
void Connection::report(Outbox& outbox, int status) {
  if (core_->observer && logged_) {
    Exchange::Note note;
    uint64_t bytes = 0;
    {
      const std::lock_guard lock(outbox.mutex);
      note = outbox.note;
      bytes = outbox.body_bytes;
    }
    core_->observer({*logged_, note, status, bytes, Clock::now() - request_start_});
  }
  logged_.reset();
}

void Connection::finish_response(const std::shared_ptr<Outbox>& outbox) {
  report(*outbox, outbox->status);
  outbox_.reset();
  core_->body_bytes -= std::exchange(reserved_, 0);
  outbox->keep_alive && !core_->draining ? wait_for_request() : linger();
}

/// Ends our side and reads on for a moment: closing with unread input would reset the connection
/// and take the answer from the client.
void Connection::linger() {
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  enter(Phase::closing, kLingerTime);
  drain_input(kLingerBytes);
}

void Connection::drain_input(uint64_t left) {
  socket_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this(), left](ErrorCode error, size_t count) {
                            if (self->phase_ != Phase::closing) {
                              return;
                            }
                            error || count > left ? self->close() : self->drain_input(left - count);
                          });
}

}  // namespace heed::serve
