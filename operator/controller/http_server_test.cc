#include "operator/controller/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "operator/base/mutex.h"

namespace trainyard::control {
namespace {

// A client that says what it is told to, and no more.
class SlowClient {
 public:
  SlowClient(int port, const std::string& bytes) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  ~SlowClient() { close(socket_); }
  SlowClient(const SlowClient&) = delete;
  SlowClient& operator=(const SlowClient&) = delete;

  // Everything until the server closes the connection; nothing when it does not.
  std::optional<std::string> ReadAll() {
    std::string all;
    char bytes[4096];
    while (true) {
      const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return all;
      if (got < 0) return std::nullopt;
      all.append(bytes, static_cast<size_t>(got));
    }
  }

 private:
  const int socket_;
};

TEST(HttpServer, ServesHealthReadinessAndMetrics) {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter().Name("trainyard_test_total").Register(*registry).Add({}).Increment(3);
  std::atomic<bool> synced = false;
  HttpServer server({.host = "127.0.0.1", .port = 0});
  server.AddLiveness("ping", [] { return absl::OkStatus(); });
  server.AddReadiness("cache", [&] { return synced ? absl::OkStatus() : absl::UnavailableError("pods are not listed yet"); });
  server.ServeMetrics(registry);
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();

  httplib::Client client("127.0.0.1", *port);
  client.set_keep_alive(true);
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  auto ready = client.Get("/readyz");
  EXPECT_EQ(ready->status, 503);
  EXPECT_NE(ready->body.find("[-]cache failed: pods are not listed yet"), std::string::npos) << ready->body;
  synced = true;
  EXPECT_EQ(client.Get("/readyz")->status, 200);
  const auto metrics = client.Get("/metrics");
  EXPECT_NE(metrics->body.find("trainyard_test_total 3"), std::string::npos);
  EXPECT_EQ(metrics->get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  EXPECT_EQ(client.Head("/healthz")->status, 200);
  EXPECT_EQ(client.Delete("/healthz")->status, 405);

  HttpServer second({.host = "127.0.0.1", .port = *port});
  const auto taken = second.Start();
  EXPECT_TRUE(absl::IsUnavailable(taken.status()));
  EXPECT_NE(taken.status().message().find("127.0.0.1:" + std::to_string(*port)), absl::string_view::npos);
}

TEST(HttpServer, ClientsThatNeverEndCostTheirPlaceToTheNext) {
  HttpServer server({.host = "127.0.0.1", .port = 0, .max_connections = 8});
  server.AddLiveness("ping", [] { return absl::OkStatus(); });
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();
  std::vector<std::unique_ptr<SlowClient>> slow;
  for (int i = 0; i < 40; ++i) slow.push_back(std::make_unique<SlowClient>(*port, i % 2 == 0 ? "" : "GET /healthz HTTP/1.1\r\nA"));
  httplib::Client client("127.0.0.1", *port);
  for (int i = 0; i < 20; ++i) {
    const auto answer = client.Get("/healthz");
    ASSERT_TRUE(answer) << httplib::to_string(answer.error());
    EXPECT_EQ(answer->status, 200);
  }
  EXPECT_EQ(slow.front()->ReadAll(), "") << "the oldest is closed";
}

TEST(HttpServer, LongRequestsAreRefusedAndTheirBodiesNotRead) {
  HttpServer server({.host = "127.0.0.1", .port = 0});
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();
  const std::string much(100 << 10, 'x');
  for (const std::string& request : {"GET /" + much + " HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA: " + much + "\r\n\r\n",
                                     "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n" + much,
                                     "POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + much}) {
    const auto answer = SlowClient(*port, request).ReadAll();
    ASSERT_TRUE(answer) << "the connection stays open after " << request.substr(0, 60);
    EXPECT_TRUE(answer->empty() || answer->starts_with("HTTP/1.1 4")) << answer->substr(0, 60);
  }
  httplib::Client client("127.0.0.1", *port);
  EXPECT_EQ(client.Get("/healthz")->status, 200);
}

// Texts that a test gives, one after another.
class Feed {
 public:
  void Add(std::string text) {
    MutexLock lock(mutex_);
    texts_.push_back(std::make_shared<const std::string>(std::move(text)));
  }
  std::unique_ptr<EventSource> Source() { return std::make_unique<FeedSource>(*this); }
  int open() const { return open_; }

 private:
  struct FeedSource : EventSource {
    explicit FeedSource(Feed& feed) : feed(feed) { ++feed.open_; }
    ~FeedSource() override { --feed.open_; }
    std::shared_ptr<const std::string> Next() override {
      MutexLock lock(feed.mutex_);
      return next < feed.texts_.size() ? feed.texts_[next++] : nullptr;
    }
    Feed& feed;
    size_t next = 0;
  };
  Mutex mutex_;
  std::vector<std::shared_ptr<const std::string>> texts_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> open_ = 0;
};

PageHandler StreamOf(Feed& feed) {
  return [&feed](const PageRequest& request) {
    PageAnswer answer;
    if (request.watch) {
      answer.events = feed.Source();
    } else {
      answer.body = std::make_shared<const std::string>(fmt::format("{} at {}", request.path, request.host));
    }
    return answer;
  };
}

bool Await(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(HttpServer, StreamsSendWhatIsNewAndEndWithTheServer) {
  Feed feed;
  feed.Add("first\n");
  HttpServer server({.host = "127.0.0.1", .port = 0, .max_streams = 2});
  server.ServePages(StreamOf(feed));
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();
  std::string got;
  std::thread reader([&] {
    httplib::Client client("127.0.0.1", *port);
    client.Get("/x?watch=true", [&](const char* bytes, size_t count) {
      got.append(bytes, count);
      if (got == "first\n") feed.Add("second\n"), server.Wake();
      if (got == "first\nsecond\n") feed.Add(std::string(1 << 20, 'x')), server.Wake();
      return got.size() < 13 + (1 << 20);
    });
  });
  reader.join();
  EXPECT_EQ(got.substr(0, 13), "first\nsecond\n");
  EXPECT_EQ(got.size(), 13 + (1 << 20));
  httplib::Client client("127.0.0.1", *port);
  EXPECT_EQ(client.Get("/page?watch=false")->body, fmt::format("/page at 127.0.0.1:{}", *port));
  const SlowClient idle(*port, "GET /x?watch=true HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(Await([&] { return feed.open() >= 1; }));
  server.Stop();
  EXPECT_EQ(feed.open(), 0);
}

TEST(HttpServer, StreamsAreBoundedAndNeitherTheyNorTheirReadersHoldUpOthers) {
  Feed feed;
  feed.Add(std::string(64 << 20, 'x'));  // more than any socket's buffer
  HttpServer server({.host = "127.0.0.1", .port = 0, .max_connections = 16, .max_streams = 4});
  server.ServePages(StreamOf(feed));
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();
  std::vector<std::unique_ptr<SlowClient>> slow;
  for (int i = 0; i < 4; ++i) slow.push_back(std::make_unique<SlowClient>(*port, "GET /x?watch=true HTTP/1.1\r\nHost: a\r\n\r\n"));
  ASSERT_TRUE(Await([&] { return feed.open() == 4; }));
  for (int i = 0; i < 40; ++i) slow.push_back(std::make_unique<SlowClient>(*port, "GET"));
  httplib::Client client("127.0.0.1", *port);
  for (int i = 0; i < 20; ++i) {
    server.Wake();
    const auto answer = client.Get("/page");
    ASSERT_TRUE(answer) << httplib::to_string(answer.error());
    EXPECT_EQ(answer->status, 200);
  }
  const auto refused = client.Get("/x?watch=true");
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->get_header_value("Retry-After"), "10");
  EXPECT_EQ(feed.open(), 4) << "connections that never end do not cost a stream its place";
  slow.clear();
  EXPECT_TRUE(Await([&] {
    server.Wake();
    return feed.open() == 0;
  })) << "a reader that is gone leaves its place to another";
}

TEST(HttpServer, AReaderThatDoesNotReadItsStreamIsCutOff) {
  Feed feed;
  feed.Add(std::string(64 << 20, 'x'));
  HttpServer server({.host = "127.0.0.1", .port = 0, .silence = absl::Seconds(1), .max_streams = 1});
  server.ServePages(StreamOf(feed));
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();
  const SlowClient slow(*port, "GET /x?watch=true HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(Await([&] { return feed.open() == 1; }));
  EXPECT_TRUE(Await([&] { return feed.open() == 0; }));
}

}  // namespace
}  // namespace trainyard::control
