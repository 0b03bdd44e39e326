#include "operator/kube/https_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "operator/kube/certificates.h"
#include "operator/kube/client.h"
#include "operator/kube/errors.h"
#include "tests/fake_apiserver/fake_api_server.h"
#include "tests/fake_apiserver/http_front.h"
#include "tests/fake_apiserver/raw_server.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

std::unique_ptr<Transport> Connect(KubeConfig config) {
  auto transport = MakeHttpsTransport(config, RealClock());
  EXPECT_TRUE(transport.ok()) << transport.status();
  return *std::move(transport);
}

HttpRequest GetPods(absl::Duration timeout = absl::Seconds(10)) { return {.target = "/api/v1/pods", .timeout = timeout}; }

class HttpsTransportTest : public testing::Test {
 protected:
  FakeApiServer server_{RealClock()};
  CertifiedKey authority_ = MakeAuthority("test authority");
  CertifiedKey server_key_ = IssueCertificate(authority_, "kubernetes", {"IP:127.0.0.1", "DNS:api.test"});
};

TEST_F(HttpsTransportTest, SpeaksTlsWithAnAuthorityAndAClientCertificateFromMemory) {
  const CertifiedKey client = IssueCertificate(authority_, "operator", {});
  HttpFront front(server_, {.certificate = server_key_, .client_ca_pem = authority_.certificate_pem});
  const auto transport = Connect({.server = front.Url(),
                                  .ca_pem = authority_.certificate_pem,
                                  .client_certificate_pem = client.certificate_pem,
                                  .client_key_pem = client.key_pem});
  const auto answer = transport->Send(GetPods());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->code, 200);

  const auto stranger = Connect({.server = front.Url(), .ca_pem = authority_.certificate_pem});
  EXPECT_FALSE(stranger->Send(GetPods()).ok()) << "no client certificate was shown";
}

TEST_F(HttpsTransportTest, RefusesAServerOfAnotherAuthority) {
  HttpFront front(server_, {.certificate = server_key_});
  const auto transport = Connect({.server = front.Url(), .ca_pem = MakeAuthority("other").certificate_pem});
  const absl::Status status = transport->Send(GetPods()).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_TRUE(server_.Calls().empty());
}

TEST_F(HttpsTransportTest, RefusesAServerWhoseCertificateIsForAnotherNameOrAddress) {
  HttpFront front(server_, {.certificate = IssueCertificate(authority_, "127.0.0.1", {"IP:10.0.0.1", "DNS:127.0.0.1"})});
  const auto transport = Connect({.server = front.Url(), .ca_pem = authority_.certificate_pem});
  EXPECT_TRUE(absl::IsUnauthenticated(transport->Send(GetPods()).status()));

  HttpFront good(server_, {.certificate = server_key_});
  const auto by_name = Connect({.server = good.Url(), .ca_pem = authority_.certificate_pem, .tls_server_name = "api.test"});
  EXPECT_TRUE(by_name->Send(GetPods()).ok());
  const auto by_wrong_name = Connect({.server = good.Url(), .ca_pem = authority_.certificate_pem, .tls_server_name = "api.wrong"});
  EXPECT_TRUE(absl::IsUnauthenticated(by_wrong_name->Send(GetPods()).status()));
}

TEST_F(HttpsTransportTest, DoesNotVerifyOnlyWhenToldSo) {
  HttpFront front(server_, {.certificate = server_key_});
  EXPECT_FALSE(Connect({.server = front.Url()})->Send(GetPods()).ok()) << "the system's authorities do not know it";
  EXPECT_TRUE(Connect({.server = front.Url(), .insecure_skip_tls_verify = true})->Send(GetPods()).ok());
}

TEST_F(HttpsTransportTest, ReadsARotatedTokenFileAgainWhenTheOldTokenIsRefused) {
  const std::string file = testing::TempDir() + "/rotated-token";
  std::ofstream(file) << "first\n";
  HttpFront front(server_, {.token = "first"});
  const auto transport = Connect({.server = front.Url(), .token_file = file});
  EXPECT_EQ(transport->Send(GetPods())->code, 200);
  std::ofstream(file) << "second\n";
  front.ExpectToken("second");
  // At most once a second the file is read again.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int code = 401;
  while (code == 401 && std::chrono::steady_clock::now() < give_up) {
    code = transport->Send(GetPods())->code;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(code, 200);
  std::remove(file.c_str());
}

TEST_F(HttpsTransportTest, ManyRequestsAtOnceAndOverTheSameConnections) {
  HttpFront front(server_, {.certificate = server_key_});
  const auto transport = Connect({.server = front.Url(), .ca_pem = authority_.certificate_pem});
  Throttle throttle(RealClock(), {.qps = 0});
  Client client(*transport, throttle, RealClock());
  std::vector<std::thread> threads;
  std::atomic<int> created = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        const Json pod = {{"metadata", {{"name", "p" + std::to_string(t) + "-" + std::to_string(i)}, {"padding", std::string(5000, 'x')}}}};
        const auto answer = client.Create(kPods, "default", pod);
        EXPECT_TRUE(answer.ok()) << answer.status();
        created += answer.ok() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(created, 180);
  EXPECT_EQ(server_.All(kPods).size(), 180u);
}

TEST_F(HttpsTransportTest, WatchesOverTheWireAndStopEndsASilentWatchAtOnce) {
  HttpFront front(server_, {.certificate = server_key_});
  const auto transport = Connect({.server = front.Url(), .ca_pem = authority_.certificate_pem});
  Throttle throttle(RealClock(), {.qps = 0});
  Client client(*transport, throttle, RealClock());
  std::stop_source stop;
  std::atomic<int> events = 0;
  absl::Status ended;
  std::thread watcher([&] {
    ended = client.Watch(
        kPods, "", {.resource_version = "1"}, stop.get_token(),
        [&](WatchEventType, Json&&) {
          ++events;
          return absl::OkStatus();
        },
        [](const Unreadable&) {});
  });
  ASSERT_TRUE(server_.Await([&] { return server_.OpenWatches() == 1; }));
  for (int i = 0; i < 20; ++i) server_.Put(kPods, {{"metadata", {{"name", "p" + std::to_string(i)}}}});
  EXPECT_TRUE(server_.Await([&] { return events == 20; }));
  stop.request_stop();
  watcher.join();
  EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
}

TEST_F(HttpsTransportTest, AConnectionRefusedIsUnavailableAndNamesTheServer) {
  std::string url;
  {
    HttpFront front(server_, {});
    url = front.Url();
  }
  const absl::Status status = Connect({.server = url})->Send(GetPods()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.ToString().find(url), std::string::npos);
}

TEST_F(HttpsTransportTest, AProxyOfTheEnvironmentIsNotUsed) {
  HttpFront front(server_, {});
  for (const char* variable : {"http_proxy", "all_proxy"}) setenv(variable, "http://127.0.0.1:1", /*overwrite=*/1);
  const absl::Status status = Connect({.server = front.Url()})->Send(GetPods()).status();
  for (const char* variable : {"http_proxy", "all_proxy"}) unsetenv(variable);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(HttpsTransportTest, AServerThatIsGoneIsFollowedWhenItComesBackOnTheSamePort) {
  auto front = std::make_unique<HttpFront>(server_, HttpFrontOptions{});
  const auto transport = Connect({.server = front->Url()});
  EXPECT_TRUE(transport->Send(GetPods()).ok());
  const int port = front->port();
  front.reset();
  EXPECT_FALSE(transport->Send(GetPods()).ok());
  front = std::make_unique<HttpFront>(server_, HttpFrontOptions{.port = port});
  EXPECT_TRUE(transport->Send(GetPods()).ok());
}

TEST_F(HttpsTransportTest, HalfAnAnswerIsAnError) {
  for (const char* bytes : {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":", "HTTP/1.1 200 OK\r\nContent-Le", "",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"half\":", "garbage\r\n\r\n"}) {
    const RawServer raw({.bytes = bytes});
    const absl::Status status = Connect({.server = raw.Url()})->Send(GetPods()).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << bytes << ": " << status;
  }
}

TEST_F(HttpsTransportTest, ASilentServerCostsTheDeadlineAndNoMore) {
  for (const char* bytes : {"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"}) {
    const RawServer raw({.bytes = bytes, .close_after = false});
    const absl::Status status = Connect({.server = raw.Url()})->Send(GetPods(absl::Milliseconds(300))).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << bytes << ": " << status;
  }
}

TEST_F(HttpsTransportTest, StopEndsARequestThatWaitsForItsAnswer) {
  const RawServer raw({.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", .close_after = false});
  const auto transport = Connect({.server = raw.Url()});
  Throttle throttle(RealClock(), {.qps = 0});
  Client client(*transport, throttle, RealClock(), {.request_timeout = absl::Minutes(10)});
  absl::Status status;
  std::thread asker([&] { status = client.Get(kPods, "default", "a").status(); });
  client.Stop();
  asker.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(HttpsTransportTest, ARequestThatMayNotBeSentAnyMoreIsNotSentOverAnOpenConnectionEither) {
  HttpFront front(server_, {.certificate = server_key_});
  const auto transport = Connect({.server = front.Url(), .ca_pem = authority_.certificate_pem});
  bool may_send = true;
  HttpRequest request = GetPods();
  request.may_send = [&] { return may_send; };
  ASSERT_TRUE(transport->Send(request).ok());
  may_send = false;
  const absl::Status status = transport->Send(request).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(server_.Calls().size(), 1U);
}

TEST_F(HttpsTransportTest, HeadersLongerThanAskedForAreCutOff) {
  const RawServer raw({.bytes = "HTTP/1.1 200 OK\r\n", .again = "A: b\r\n"});
  EXPECT_TRUE(absl::IsResourceExhausted(Connect({.server = raw.Url()})->Send(GetPods()).status()));
}

TEST_F(HttpsTransportTest, AnAnswerLongerThanAskedForIsCutOff) {
  const std::string body(100000, 'x');
  const RawServer raw({.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + body});
  HttpRequest request = GetPods();
  request.max_body_bytes = 1000;
  EXPECT_TRUE(absl::IsResourceExhausted(Connect({.server = raw.Url()})->Send(request).status()));
}

TEST_F(HttpsTransportTest, ASilentWatchIsGivenUpAfterItsIdleTime) {
  HttpFront front(server_, {});
  const auto transport = Connect({.server = front.Url()});
  HttpRequest request = GetPods();
  request.target += "?watch=true";
  const absl::Status status = transport->Stream(request, absl::Milliseconds(200), [](std::string_view) { return true; }).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(HttpsTransportTest, ARefusedWatchIsAnAnswer) {
  HttpRequest request = GetPods();
  request.target += "?watch=true";
  const RawServer raw({.bytes = "HTTP/1.1 403 Forbidden\r\nContent-Length: 13\r\nRetry-After: 4\r\n\r\n{\"a\":\"wrong\"}"});
  const auto refused = Connect({.server = raw.Url()})->Stream(request, absl::Seconds(5), [](std::string_view) { return true; });
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(refused->code, 403);
  EXPECT_EQ(refused->retry_after, "4");
  EXPECT_EQ(refused->body, "{\"a\":\"wrong\"}");
}

TEST(MakeHttpsTransport, RefusesAConfigThatMakesNoSense) {
  for (const KubeConfig& config :
       {KubeConfig{.server = "ftp://x"}, KubeConfig{.server = "https://"}, KubeConfig{.server = "https://h:0"},
        KubeConfig{.server = "https://h:99999"}, KubeConfig{.server = "https://[::1"}, KubeConfig{.server = "https://h", .ca_pem = "x"},
        KubeConfig{.server = "https://h", .client_certificate_pem = "x", .client_key_pem = "y"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MakeHttpsTransport(config, RealClock()).status())) << config.server;
  }
}

}  // namespace
}  // namespace trainyard::control
