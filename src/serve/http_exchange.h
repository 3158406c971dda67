#pragma once

#include <memory>

#include "serve/http_connection.h"

namespace heed::serve {

/// An exchange over a connection. Frames the answer on the caller's thread and wakes the I/O thread
/// at most once per flush, however many pieces are written meanwhile.
class HttpExchange : public Exchange {
 public:
  HttpExchange(std::shared_ptr<HttpCore> core, std::shared_ptr<Connection> connection,
               std::shared_ptr<Outbox> outbox, HttpRequest request);
  ~HttpExchange() override;

  void respond(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  bool write(std::string_view piece) override;
  void end_stream() override;
  bool cancelled() const override { return outbox_->cancelled; }
  void on_cancel(std::function<void()> callback) override;
  void annotate(const std::function<void(Note&)>& change) override;

 private:
  void post_flush();

  std::shared_ptr<HttpCore> core_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Outbox> outbox_;
};

/// Status line and header fields, with the empty line behind them. `length` < 0: chunked, or, with
/// `chunked` false, until the connection closes.
std::string format_head(const HttpResponse& response, int64_t length, bool chunked, bool keep_alive,
                        const std::string& request_id);

}  // namespace heed::serve
