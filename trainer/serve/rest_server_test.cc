#include "trainer/serve/rest_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/synchronization/notification.h"
#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kRow[] = R"({"instances": [[1, 2, 3]]})";
constexpr char kPredict[] = "/v1/models/model:predict";

class RestServerTest : public ::testing::Test {
 protected:
  void Start(RestServerOptions options = {}) {
    SaveModel(dir_, 7, 1);
    ASSERT_TRUE(watch_.Poll().ok());
    options.timeout = absl::Seconds(30);
    auto server = RestServer::Start(options, api_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Everything that comes for some bytes, until the server ends the connection.
  std::string Talk(const std::string& bytes) {
    httplib::Client dial("127.0.0.1", server_->port());
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    ::shutdown(fd, SHUT_WR);
    std::string said;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) said.append(buffer, static_cast<size_t>(count));
    ::close(fd);
    return said;
  }

  const std::string dir_ = EmptyFolder();
  ServeMetrics metrics_;
  VersionWatch watch_{dir_, /*best=*/false, [](const std::string& path) { return LoadModel(path); }};
  ModelService service_{{}, watch_, metrics_};
  HttpApi api_{service_};
  std::unique_ptr<RestServer> server_;
};

TEST_F(RestServerTest, AConnectionHasManyRequests) {
  Start();
  const std::string post =
      std::string("POST ") + kPredict + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(sizeof(kRow) - 1) + "\r\n\r\n" + kRow;
  const std::string said = Talk(post + post + "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n");
  size_t answers = 0;
  for (size_t at = said.find("HTTP/1.1 200 OK"); at != std::string::npos; at = said.find("HTTP/1.1 200 OK", at + 1)) ++answers;
  EXPECT_EQ(answers, 3U) << said;
  EXPECT_THAT(said, HasSubstr(R"({"predictions":[[7.0]]})"));
}

// A client asks on one connection until it is told that the server ends.
struct Asked {
  int answers = 0;
  bool told = false;
};
Asked AskUntilTold(int port, absl::Notification& asking) {
  constexpr int kMostRequests = 5000;  // the server ends long before
  Asked asked;
  httplib::Client client("127.0.0.1", port);
  client.set_keep_alive(true);
  while (asked.answers < kMostRequests && !asked.told) {
    const httplib::Result result = client.Post(kPredict, kRow, "application/json");
    if (!result || result->status != 200) break;
    asked.told = result->get_header_value("Connection") == "close";
    if (++asked.answers == 1) asking.Notify();
  }
  if (asked.answers == 0) asking.Notify();
  return asked;
}

TEST_F(RestServerTest, AServerThatEndsTellsAClientThatGoesOnAsking) {
  // A client that is held up between two requests finds the connection closed, which is right too.
  constexpr int kAttempts = 10;
  Asked asked;
  for (int attempt = 0; attempt < kAttempts && !asked.told; ++attempt) {
    Start();
    absl::Notification asking;
    std::thread client([&, port = server_->port()] { asked = AskUntilTold(port, asking); });
    asking.WaitForNotification();
    server_ = nullptr;
    client.join();
    EXPECT_GT(asked.answers, 0);
  }
  EXPECT_TRUE(asked.told);
}

TEST_F(RestServerTest, ABodyWithoutALengthComesInPieces) {
  Start();
  const std::string said =
      Talk(std::string("POST ") + kPredict + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1a\r\n" + kRow + "\r\n0\r\n\r\n");
  EXPECT_THAT(said, HasSubstr(R"({"predictions":[[7.0]]})"));
}

TEST_F(RestServerTest, AnotherRequestFollowsABodyInPieces) {
  Start();
  const std::string said = Talk(std::string("POST ") + kPredict +
                                " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n1a;x=y\r\n" + kRow +
                                "\r\n0\r\nTrailer: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(said, StartsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"));
  EXPECT_THAT(said, HasSubstr(R"({"predictions":[[7.0]]})"));
  EXPECT_THAT(said, HasSubstr("\r\n\r\nok\n"));
}

TEST_F(RestServerTest, MoreConnectionsThanThreadsAreAnsweredOneAfterTheOther) {
  Start({.connections = 1});
  httplib::Client first("127.0.0.1", server_->port());
  httplib::Client second("127.0.0.1", server_->port());
  first.set_keep_alive(true);
  second.set_keep_alive(true);
  for (int i = 0; i < 3; ++i) {
    for (httplib::Client* client : {&first, &second}) {
      const auto answer = client->Post(kPredict, kRow, "application/json");
      ASSERT_TRUE(answer) << httplib::to_string(answer.error());
      EXPECT_EQ(answer->status, 200);
    }
  }
}

TEST_F(RestServerTest, WhatIsNotReadToItsEndEndsTheConnection) {
  Start({.request_bytes = 1000});
  const std::string next = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
  const auto post = [](const std::string& headers, const std::string& body) {
    return std::string("POST ") + kPredict + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n\r\n" + body;
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"HTTP/1.1 411", post("X: y", kRow)},
      {"HTTP/1.1 411", post("Content-Length: 26\r\nContent-Length: 2", kRow)},
      {"HTTP/1.1 411", post("Content-Length: 26\r\nTransfer-Encoding: chunked", kRow)},
      {"HTTP/1.1 415", post("Content-Encoding: gzip\r\nContent-Length: 26", kRow)},
      {"HTTP/1.1 415", post("Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 26", kRow)},
      {"HTTP/1.1 413", post("Content-Length: 100000", std::string(100'000, ' '))},
      {"HTTP/1.1 413", post("Expect: 100-continue\r\nContent-Length: 100000", "")},
      {"HTTP/1.1 413", post("Transfer-Encoding: chunked", "fff\r\n" + std::string(0xfff, ' ') + "\r\n0\r\n\r\n")},
      {"HTTP/1.1 400", post("Content-Length: x", kRow)},
      {"HTTP/1.1 400", post("Content-Length: +26", kRow)},
      {"HTTP/1.1 400", post("Transfer-Encoding: chunked", "zz\r\n")},
      {"HTTP/1.1 400", post("Transfer-Encoding: chunked", "1a\r\n" + std::string(kRow) + "0\r\n\r\n")},
      {"HTTP/1.1 501", post("Transfer-Encoding: gzip", kRow)},
      {"HTTP/1.1 501", post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n")},
      {"HTTP/1.1 414", "GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"HTTP/1.1 405", "PUT /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"},
      {"HTTP/1.1 400", "no HTTP at all\r\n\r\n"},
  };
  for (const auto& [expected, request] : cases) {
    const std::string said = Talk(request + next);
    EXPECT_THAT(said, StartsWith(expected)) << request.substr(0, 200);
    EXPECT_THAT(said, HasSubstr("{\"error\":")) << request.substr(0, 200);
    if (!expected.ends_with("400") || request.starts_with("POST")) {
      EXPECT_THAT(said, HasSubstr("Connection: close\r\n")) << request.substr(0, 200);
    }
    EXPECT_EQ(said.find("HTTP/1.1", 1), std::string::npos) << said;
  }
  EXPECT_THAT(Talk(next), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(RestServerTest, AFormsContentTypeIsNoBound) {
  Start();
  httplib::Client client("127.0.0.1", server_->port());  // curl -d says so, and the library would bound such bodies
  const auto answer = client.Post(kPredict, std::string(20'000, ' ') + kRow, "application/x-www-form-urlencoded");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, R"({"predictions":[[7.0]]})");
}

TEST_F(RestServerTest, APortInUseIsAnError) {
  Start();
  const auto second = RestServer::Start({.port = server_->port(), .timeout = absl::Seconds(1)}, api_);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("cannot serve REST on 127.0.0.1:"));
}

}  // namespace
}  // namespace trainyard::engine
