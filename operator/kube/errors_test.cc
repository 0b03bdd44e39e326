#include "operator/kube/errors.h"

#include <gtest/gtest.h>

#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

TEST(Errors, TheServersReasonDecides) {
  const absl::Status exists = StatusFromAnswer(
      "create pods default/a", 409, R"({"kind":"Status","reason":"AlreadyExists","message":"pods \"a\" already exists","code":409})", "");
  EXPECT_TRUE(absl::IsAlreadyExists(exists));
  EXPECT_FALSE(IsConflict(exists));
  EXPECT_EQ(exists.message(), "create pods default/a: 409 AlreadyExists: pods \"a\" already exists");
  const absl::Status conflict = StatusFromAnswer("update pods default/a", 409, R"({"reason":"Conflict","code":409})", "");
  EXPECT_TRUE(IsConflict(conflict));
  EXPECT_FALSE(absl::IsAlreadyExists(conflict));
  EXPECT_TRUE(absl::IsNotFound(StatusFromAnswer("get", 404, "404 page not found", "")));
  EXPECT_TRUE(IsExpired(StatusFromAnswer("list", 410, R"({"reason":"Expired"})", "")));
  EXPECT_TRUE(IsForbidden(StatusFromAnswer("create", 403, R"({"reason":"Forbidden"})", "")));
  EXPECT_TRUE(IsInvalid(StatusFromAnswer("create", 422, R"({"reason":"Invalid"})", "")));
  EXPECT_TRUE(absl::IsUnavailable(StatusFromAnswer("create", 500, "", "")));
  EXPECT_TRUE(absl::IsDeadlineExceeded(StatusFromAnswer("create", 504, R"({"reason":"Timeout"})", "")));
}

TEST(Errors, RetryAfterIsReadFromHeaderOrDetails) {
  EXPECT_EQ(RetryAfter(StatusFromAnswer("list", 429, "{}", "7")), absl::Seconds(7));
  EXPECT_EQ(RetryAfter(StatusFromAnswer("list", 503, R"({"details":{"retryAfterSeconds":3}})", "")), absl::Seconds(3));
  EXPECT_EQ(RetryAfter(StatusFromAnswer("list", 429, "{}", "99999999")), absl::Minutes(10));
  for (const char* nonsense : {"", "soon", "-5", "1e9999"}) {
    const auto wait = RetryAfter(StatusFromAnswer("list", 429, "{}", nonsense));
    EXPECT_TRUE(!wait.has_value() || *wait <= absl::Seconds(1)) << nonsense;
  }
}

TEST(Errors, ReasonCodeAndRetryAfterSurviveContext) {
  const absl::Status status = WithContext(StatusFromAnswer("list", 429, R"({"reason":"TooManyRequests"})", "7"), "outer");
  EXPECT_EQ(Reason(status), "TooManyRequests");
  EXPECT_EQ(HttpCode(status), 429);
  EXPECT_EQ(RetryAfter(status), absl::Seconds(7));
  EXPECT_EQ(status.message().substr(0, 7), "outer: ");
}

TEST(Errors, AnyBodyGivesAStatusAndALongOneIsCut) {
  for (const char* body : {"", "null", "[]", "{\"code\":\"x\",\"reason\":5,\"details\":[],\"message\":{}}", "<html>",
                           "{\"details\":{\"causes\":[1]}}", "\xff"}) {
    EXPECT_FALSE(StatusFromAnswer("get", 500, body, "").ok()) << body;
    EXPECT_FALSE(StatusFromObject("watch", body).ok()) << body;
  }
  EXPECT_LT(StatusFromAnswer("get", 500, std::string(100000, 'x'), "").message().size(), 3000u);
  EXPECT_EQ(StatusFromAnswer("get", 500, "{\"message\":\"two\\nlines\"}", "").message().find('\n'), absl::string_view::npos);
}

TEST(Errors, ATerminatingNamespaceIsRecognised) {
  EXPECT_TRUE(IsNamespaceTerminating(
      StatusFromAnswer("create", 403, R"({"reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}})", "")));
  EXPECT_FALSE(IsNamespaceTerminating(StatusFromAnswer("create", 403, R"({"reason":"Forbidden"})", "")));
}

TEST(Errors, NoAnswerHasNoCode) {
  EXPECT_EQ(HttpCode(absl::UnavailableError("refused")), 0);
  EXPECT_FALSE(IsConflict(absl::AbortedError("x")));
}

}  // namespace
}  // namespace trainyard::control
