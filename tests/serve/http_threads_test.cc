// The HTTP layer alone, with answers from other threads and clients that leave: for the thread
// sanitizer.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/file_descriptor.h"
#include "serve/http_server.h"
#include "serve/work_queue.h"

namespace heed::serve {
namespace {

/// Answers on threads of its own: /whole at once, /stream in pieces, /dropped not at all.
void answer(const ExchangePtr& exchange, std::atomic<int>& cancelled) {
  const std::string& path = exchange->request().path;
  exchange->on_cancel([&cancelled] { ++cancelled; });
  exchange->annotate([](Exchange::Note& note) { note.route = "test"; });
  if (path == "/whole") {
    exchange->respond({200, exchange->request().body, "text/plain"});
  } else if (path == "/stream") {
    exchange->begin_stream({200, "", "text/plain"});
    for (int i = 0; i < 20 && exchange->write("piece "); ++i) {
    }
    exchange->end_stream();
  }
}

/// What the server answers to one request on a connection of its own; where `leave`, the client
/// goes without reading.
std::string ask(int port, const std::string& path, bool leave) {
  const FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return "no connection";
  }
  const std::string request = "POST " + path +
                              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                              "Content-Length: 5\r\n\r\nhello";
  send(client.get(), request.data(), request.size(), MSG_NOSIGNAL);
  std::string text;
  char block[1024];
  for (ssize_t count = 0; !leave && (count = recv(client.get(), block, sizeof block, 0)) > 0;) {
    text.append(block, static_cast<size_t>(count));
  }
  return text;
}

TEST(HttpThreads, AnswersFromOtherThreadsAndClientsThatLeave) {
  constexpr int kClients = 4, kRounds = 25;
  std::atomic<int> cancelled{0}, completed{0}, wrong{0};
  WorkQueue workers("answers", 3);
  HttpServer server(
      {},
      [&](const ExchangePtr& exchange) {
        workers.post([exchange, &cancelled] { answer(exchange, cancelled); });
      },
      [&](const HttpServer::Completion& completion) {
        completed += completion.note.route == "test" ? 1 : 0;
      });
  server.listen("127.0.0.1", 0);
  server.start();
  const auto expect = [&](const std::string& path, const std::string& status,
                          const std::string& part) {
    const std::string text = ask(server.port(), path, false);
    wrong += text.starts_with("HTTP/1.1 " + status) && text.find(part) != text.npos ? 0 : 1;
  };
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        expect("/whole", "200", "hello");
        expect("/stream", "200", "piece");
        expect("/dropped", "500", "dropped");
        ask(server.port(), "/stream", true);
        wrong += server.counters().open_connections >= 0 ? 0 : 1;
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(wrong, 0);
  server.drain();
  EXPECT_TRUE(server.wait_until_drained(std::chrono::seconds(20)));
  workers.stop();
  server.stop();
  EXPECT_GE(completed, kClients * kRounds * 3);
  EXPECT_LE(cancelled, kClients * kRounds);
}

TEST(WorkQueue, WhatIsQueuedIsRunOrDropped) {
  for (const bool drop : {false, true}) {
    std::atomic<int> ran{0};
    std::promise<void> begun, go;
    WorkQueue queue("work", 1);
    queue.post([&] {
      begun.set_value();
      go.get_future().wait();
      ++ran;
    });
    const auto held = std::make_shared<int>();
    queue.post([&ran, held] { ++ran; });
    begun.get_future().wait();
    std::thread stopping(
        [&] { queue.stop(drop ? WorkQueue::Queued::drop : WorkQueue::Queued::run); });
    while (drop && held.use_count() > 1) {  // dropped while the first is still at work
      std::this_thread::yield();
    }
    go.set_value();
    stopping.join();
    EXPECT_EQ(ran, drop ? 1 : 2);
    EXPECT_EQ(held.use_count(), 1);
  }
}

}  // namespace
}  // namespace heed::serve
