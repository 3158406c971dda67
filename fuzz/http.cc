#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "fuzz/target.h"
#include "serve/http_server.h"

namespace {

/// A server that answers every request that it takes.
heed::serve::HttpServer& server() {
  using namespace heed::serve;
  static HttpServer* const server = [] {
    HttpLimits limits;
    limits.header_time = limits.body_time = limits.idle_time = std::chrono::milliseconds(200);
    auto* made = new HttpServer(limits, [](const ExchangePtr& exchange) {
      if (exchange->request().path.find('\0') != std::string::npos) {
        std::abort();
      }
      exchange->respond({200, exchange->request().path + exchange->request().body, "text/plain"});
    });
    made->listen("127.0.0.1", 0);
    made->start();
    return made;
  }();
  return *server;
}

}  // namespace

/// Any bytes as what a client sends: the server answers with HTTP or closes the connection.
HEED_FUZZ_TARGET(http) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server().port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (client < 0 ||
      connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    std::abort();  // the server is gone
  }
  const linger at_once{1, 0};  // no ports in TIME_WAIT
  setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  [[maybe_unused]] const auto sent = send(client, input.data(), input.size(), MSG_NOSIGNAL);
  shutdown(client, SHUT_WR);
  std::string answer;
  char block[4096];
  for (ssize_t count = 0; (count = recv(client, block, sizeof(block), 0)) > 0;) {
    answer.append(block, static_cast<size_t>(count));
  }
  close(client);
  if (!answer.empty() && !answer.starts_with("HTTP/1.")) {
    std::abort();
  }
}
