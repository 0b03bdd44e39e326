#include "operator/progress/progress_fetch.h"

#include <gtest/gtest.h>

#include "operator/api/progress_json.h"
#include "operator/kube/config.h"
#include "operator/kube/https_transport.h"
#include "tests/fake_apiserver/raw_server.h"

namespace trainyard::control {
namespace {

constexpr char kOk[] = "HTTP/1.1 200 OK\r\n";

ProgressTarget At(const RawServer& server) {
  return {.ns = "default", .name = "mnist-worker-0", .uid = "u", .ip = "127.0.0.1", .port = server.port()};
}

// The same pod asked both ways.
class ProgressFetchTest : public testing::TestWithParam<bool> {
 protected:
  absl::StatusOr<std::string> Ask(const RawServer& server) {
    if (GetParam()) return FetchFromPod(RealClock())(At(server), {});
    auto transport = MakeHttpsTransport({.server = server.Url()}, RealClock());
    return FetchThroughApiServer(**transport)(At(server), {});
  }
};

TEST_P(ProgressFetchTest, AnAnswerIsHandedOnAsItCame) {
  const RawServer server({.bytes = std::string(kOk) + "Content-Length: 11\r\n\r\n{\"step\": 1}"});
  const auto body = Ask(server);
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(*body, "{\"step\": 1}");
}

TEST_P(ProgressFetchTest, HeadersAndBodiesWithoutEndAreCutOff) {
  const std::string line(100 << 10, 'x');
  const std::string block(60 << 10, 'x');
  for (const RawAnswer& answer : {
           RawAnswer{.bytes = "HTTP/1.1 200 " + line + "\r\n\r\n"},
           RawAnswer{.bytes = std::string(kOk) + "A: " + line + "\r\n\r\n"},
           RawAnswer{.bytes = kOk, .again = "A: b\r\n"},
           RawAnswer{.bytes = std::string(kOk) + "A: ", .again = block},
           RawAnswer{.bytes = "", .again = "HTTP/1.1 100 Continue\r\n\r\n"},
           RawAnswer{.bytes = std::string(kOk) + "\r\n", .again = block},
           RawAnswer{.bytes = std::string(kOk) + "Transfer-Encoding: chunked\r\n\r\n", .again = "1\r\nx\r\n"},
       }) {
    const RawServer server(answer);
    const auto body = Ask(server);
    EXPECT_FALSE(body.ok()) << answer.bytes.substr(0, 40) << " … " << answer.again.substr(0, 40);
  }
}

TEST_P(ProgressFetchTest, AByteNowAndThenDoesNotKeepItWaiting) {
  for (const char* bytes : {"HTTP/1.1 2", "HTTP/1.1 200 OK\r\nA: ", "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"}) {
    const RawServer server({.bytes = bytes, .again = "x", .pause = std::chrono::milliseconds(100)});
    const absl::Status status = Ask(server).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << bytes << ": " << status;
  }
}

TEST_P(ProgressFetchTest, RedirectsAreNotFollowedAndNothingIsTriedAgain) {
  for (const char* bytes : {"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/secret\r\nContent-Length: 0\r\n\r\n",
                            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n",
                            "HTTP/1.1 503 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"}) {
    const RawServer server({.bytes = bytes});
    const absl::Status status = Ask(server).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_NE(status.ToString().find("expected 200"), std::string::npos) << status;
  }
}

// Of an API server that stands between, the code may be its own.
TEST_P(ProgressFetchTest, APodThatAnswers503HasToldNoStepYet) {
  const RawServer server({.bytes = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"});
  const std::string told(Ask(server).status().message());
  EXPECT_EQ(told.ends_with("found code 503, expected 200; it has told no step yet"), GetParam()) << told;
}

INSTANTIATE_TEST_SUITE_P(ProgressFetch, ProgressFetchTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) { return info.param ? "FromPod" : "ThroughApiServer"; });

// Keeps the target of the request.
class Recorder : public Transport {
 public:
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    target = request.target;
    return HttpResponse{.code = 200, .body = "x"};
  }
  absl::StatusOr<HttpResponse> Stream(const HttpRequest& /*request*/, absl::Duration /*idle*/,
                                      const std::function<bool(std::string_view)>& /*on_data*/) override {
    return absl::UnimplementedError("not asked for");
  }
  std::string target;
};

TEST(FetchThroughApiServer, AsksPodsAndServicesByTheirPath) {
  Recorder recorder;
  EXPECT_TRUE(FetchThroughApiServer(recorder)({.ns = "team", .name = "mnist-worker-0", .port = 5001}, {}).ok());
  EXPECT_EQ(recorder.target, "/api/v1/namespaces/team/pods/mnist-worker-0:5001/proxy/progress");
  EXPECT_TRUE(FetchThroughApiServer(recorder)(
                  {.ns = "team", .kind = "services", .name = "mnist-serve", .port = 8080, .path = "v1/models/mnist"}, {})
                  .ok());
  EXPECT_EQ(recorder.target, "/api/v1/namespaces/team/services/mnist-serve:8080/proxy/v1/models/mnist");
}

TEST(FetchFromPod, AnAddressThatIsNoneIsNotAsked) {
  for (const char* ip : {"", "localhost", "127.0.0.1@evil", "127.0.0.1/x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FetchFromPod(RealClock())({.name = "p", .ip = ip, .port = 1}, {}).status())) << ip;
  }
}

}  // namespace
}  // namespace trainyard::control
