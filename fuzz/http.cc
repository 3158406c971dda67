#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file_descriptor.h"
#include "fuzz/target.h"
#include "serve/http_connection.h"

namespace {

using namespace heed::serve;

/// A server that answers every request that it takes.
const std::shared_ptr<HttpCore>& core() {
  static const std::shared_ptr<HttpCore> shared = [] {
    HttpLimits limits;
    limits.header_time = limits.body_time = limits.idle_time = limits.write_time =
        std::chrono::milliseconds(200);
    const auto answer = [](const ExchangePtr& exchange) {
      if (exchange->request().path.find('\0') != std::string::npos) {
        std::abort();
      }
      exchange->respond({200, exchange->request().path + exchange->request().body, "text/plain"});
    };
    return std::make_shared<HttpCore>(limits, answer, nullptr);
  }();
  return shared;
}

void add_connection(int descriptor) {
  const auto connection =
      std::make_shared<Connection>(core(), tcp::socket(core()->io, tcp::v4(), descriptor));
  core()->connections.push_front(connection);
  connection->place = core()->connections.begin();
  core()->counters.open_connections += 1;
  connection->start();
}

}  // namespace

/// Any bytes as what a client sends: the server answers with HTTP or closes the connection, and
/// keeps nothing of it. On one thread over a pair of sockets: what happens depends on the input
/// alone.
HEED_FUZZ_TARGET(http) {
  constexpr size_t kLongest = 64 << 10;  // that a socket takes at once
  int pair[2] = {-1, -1};
  if (input.size() > kLongest || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return;
  }
  const heed::FileDescriptor client(pair[0]);
  if (send(client.get(), input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
    std::abort();
  }
  shutdown(client.get(), SHUT_WR);
  add_connection(pair[1]);
  std::string answer;
  while (!core()->connections.empty()) {
    core()->io.restart();
    if (core()->io.poll() == 0) {
      core()->io.run_one_for(std::chrono::milliseconds(100));
    }
    char block[4096];
    for (ssize_t count = 0; (count = recv(client.get(), block, sizeof(block), MSG_DONTWAIT)) > 0;) {
      answer.append(block, static_cast<size_t>(count));
    }
  }
  core()->io.restart();
  core()->io.poll();
  if ((!answer.empty() && !answer.starts_with("HTTP/1.")) || core()->body_bytes != 0 ||
      core()->counters.open_connections != 0) {
    std::abort();
  }
}
