#include "serve/http_server.h"

#include <pthread.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <thread>

#include "base/check.h"
#include "serve/http_connection.h"

namespace heed::serve {
namespace asio = boost::asio;
using boost::system::error_code;
namespace {

constexpr int kBacklog = 1024;
constexpr int kSendBuffer =
    128 << 10;  // bounds what the system keeps for a client that reads slowly
constexpr std::chrono::milliseconds kAcceptPause{50};

}  // namespace

void HttpCore::post(std::function<void()> task) {
  const std::lock_guard lock(posting);
  if (!stopped) {
    asio::post(io, std::move(task));
  }
}

bool HttpCore::evict_idle() {
  std::shared_ptr<Connection> oldest;
  for (const auto& connection : connections) {
    if (connection->is_waiting() && (!oldest || connection->since() < oldest->since())) {
      oldest = connection;
    }
  }
  if (!oldest) {
    return false;
  }
  counters.evicted += 1;
  oldest->close();
  return true;
}

struct HttpServer::Impl : std::enable_shared_from_this<HttpServer::Impl> {
  /// Held by the handler of an accept or of the pause before the next one. Where memory runs out,
  /// the handler is destroyed without a call, and this says that nothing is under way any more.
  class Accepting {
   public:
    explicit Accepting(std::shared_ptr<Impl> owner) : owner_(std::move(owner)) {
      owner_->accepting = true;
    }
    Accepting(Accepting&&) = default;
    Accepting& operator=(Accepting&&) = delete;
    ~Accepting() {
      if (owner_) {
        owner_->accepting = false;
      }
    }
    /// Its server, once the handler is called.
    std::shared_ptr<Impl> end() {
      owner_->accepting = false;
      return std::move(owner_);
    }

   private:
    std::shared_ptr<Impl> owner_;
  };

  explicit Impl(std::shared_ptr<HttpCore> shared)
      : core(std::move(shared)),
        acceptor(core->io),
        retry(core->io),
        work(core->io.get_executor()) {}

  void accept();
  void on_accept(error_code error, tcp::socket socket);
  void add_connection(tcp::socket socket) const;
  void run();
  void close_orphans() const;

  std::shared_ptr<HttpCore> core;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
  std::string host;
  int port = 0;
  bool accepting = false;  // an accept or the pause before the next one is under way
};

/// Handlers may run out of memory. What such a handler was doing is lost, and its connection is
/// closed at once or at its deadline; the thread and the accept loop must never end by it.
void HttpServer::Impl::run() {
  for (;;) {
    try {
      if (!accepting) {
        accept();
      }
      core->io.run();
      return;
    } catch (const std::exception&) {
      core->counters.accept_failures += accepting ? 0 : 1;
      close_orphans();
    }
  }
}

/// Closes connections that no handler refers to any more.
void HttpServer::Impl::close_orphans() const {
  for (auto next = core->connections.begin(); next != core->connections.end();) {
    const std::shared_ptr<Connection> connection = *next++;
    if (connection.use_count() > 2) {
      continue;
    }
    try {
      connection->close();
    } catch (const std::exception&) {
      continue;  // with the next one
    }
  }
}

void HttpServer::Impl::accept() {
  if (core->draining || !acceptor.is_open()) {
    return;
  }
  acceptor.async_accept(
      [pending = Accepting(shared_from_this())](error_code error, tcp::socket socket) mutable {
        pending.end()->on_accept(error, std::move(socket));
      });
}

void HttpServer::Impl::on_accept(error_code error, tcp::socket socket) {
  if (core->draining || error == asio::error::operation_aborted) {
    return;
  }
  if (error) {
    // Mostly no file descriptors or memory left: what is waiting gives one up, and after a pause
    // there is another try. The loop itself must never end.
    core->counters.accept_failures += 1;
    core->evict_idle();
    retry.expires_after(kAcceptPause);
    retry.async_wait(
        [pending = Accepting(shared_from_this())](error_code) mutable { pending.end()->accept(); });
    return;
  }
  core->counters.accepted += 1;
  const auto limit = static_cast<size_t>(core->limits.connections);
  if (core->connections.size() < limit || core->evict_idle()) {
    add_connection(std::move(socket));
  }
  accept();
}

void HttpServer::Impl::add_connection(tcp::socket socket) const {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  const auto connection = std::make_shared<Connection>(core, std::move(socket));
  core->connections.push_front(connection);
  connection->place = core->connections.begin();
  core->counters.open_connections += 1;
  connection->start();
}

HttpServer::HttpServer(const HttpLimits& limits, Handler handler, Observer observer)
    : impl_(std::make_shared<Impl>(
          std::make_shared<HttpCore>(limits, std::move(handler), std::move(observer)))) {}

HttpServer::~HttpServer() { stop(); }

void HttpServer::listen(const std::string& host, int port) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) {
    fail(ErrorKind::usage, "host", "'{}' is not an IP address", host);
  }
  const tcp::endpoint endpoint(address, static_cast<unsigned short>(port));
  impl_->acceptor.open(endpoint.protocol(), error);
  if (!error) {
    impl_->acceptor.set_option(asio::socket_base::reuse_address(true), error);
    impl_->acceptor.bind(endpoint, error);
  }
  if (!error) {
    impl_->acceptor.listen(kBacklog, error);
  }
  if (error) {
    fail(ErrorKind::runtime, "serve", "cannot listen on {} port {}: {}", host, port,
         error.message());
  }
  impl_->host = host;
  impl_->port = impl_->acceptor.local_endpoint().port();
}

void HttpServer::adopt(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  int listening = 0;
  socklen_t option = sizeof listening;
  const bool good = getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
                    (address.ss_family == AF_INET || address.ss_family == AF_INET6) &&
                    getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listening, &option) == 0 &&
                    listening != 0;
  if (!good) {
    fail(ErrorKind::usage, "serve", "file descriptor {} is not a listening TCP socket", socket);
  }
  error_code error;
  impl_->acceptor.assign(address.ss_family == AF_INET ? tcp::v4() : tcp::v6(), socket, error);
  if (error) {
    fail(ErrorKind::runtime, "serve", "cannot use file descriptor {}: {}", socket, error.message());
  }
  const tcp::endpoint endpoint = impl_->acceptor.local_endpoint();
  impl_->host = endpoint.address().to_string();
  impl_->port = endpoint.port();
}

int HttpServer::port() const { return impl_->port; }
std::string HttpServer::host() const { return impl_->host; }
const HttpCounters& HttpServer::counters() const { return impl_->core->counters; }

void HttpServer::start() {
  impl_->accept();
  impl_->thread = std::thread([impl = impl_] {
    pthread_setname_np(pthread_self(), "heed-io");
    impl->run();
  });
}

void HttpServer::drain() {
  impl_->core->draining = true;
  impl_->core->post([impl = impl_] {
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->retry.cancel(ignored);
    const auto all = impl->core->connections;
    for (const auto& connection : all) {
      if (connection->is_between_requests()) {
        connection->close();
      }
    }
  });
}

bool HttpServer::wait_until_drained(std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (impl_->core->counters.open_connections > 0) {
    if (Clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void HttpServer::stop() {
  if (!impl_->thread.joinable()) {
    return;
  }
  drain();
  impl_->core->post([impl = impl_] {
    const auto all = impl->core->connections;
    for (const auto& connection : all) {
      connection->close();
    }
    impl->work.reset();
  });
  {
    const std::lock_guard lock(impl_->core->posting);
    impl_->core->stopped = true;
  }
  impl_->thread.join();
}

}  // namespace heed::serve
