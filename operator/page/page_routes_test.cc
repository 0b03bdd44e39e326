#include "operator/page/page_routes.h"

#include <gtest/gtest.h>

#include "operator/base/fake_clock.h"
#include "operator/page/test_stores.h"

namespace trainyard::control {
namespace {

TEST(PageRoutes, AnswersItsPathsAndNothingElse) {
  FakeClock clock;
  TestStores stores;
  stores.Put(MakeJob());
  JobFeed feed(clock, stores.jobs, stores.pods);
  feed.Look();
  const PageHandler pages = PageRoutes(feed, {});
  const auto code = [&](std::string_view path) { return pages({.path = path, .host = "localhost:8081"}).code; };
  for (const char* path : {"/", "/page.css", "/page.js", "/api/v1/jobs", "/api/v1/jobs/default/mnist"}) EXPECT_EQ(code(path), 200) << path;
  for (const char* path : {"/api/v1/jobs/", "/api/v1/jobs/default/other", "/api/v1/jobsx", "/page_dom.js", "/../etc/passwd", ""})
    EXPECT_EQ(code(path), 404) << path;
  EXPECT_NE(pages({.path = "/api/v1/jobs", .host = "[::1]:8081", .watch = true}).events, nullptr);
  EXPECT_NE(pages({.path = "/page.js", .host = "127.0.0.1"}).body->find("EventSource"), std::string::npos);
}

TEST(PageRoutes, OnlyOwnNamesAndAddressesAreAnswered) {
  for (const char* host : {"localhost", "localhost:8081", "127.0.0.1:1", "10.1.2.3", "[::1]", "[fd00::1]:8081", "trainyard.example:443"}) {
    EXPECT_TRUE(IsOwnHost(host, {"trainyard.example"})) << host;
  }
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[evil]", "[::1", "trainyard.example.evil"}) {
    EXPECT_FALSE(IsOwnHost(host, {"trainyard.example"})) << host;
  }
}

}  // namespace
}  // namespace trainyard::control
