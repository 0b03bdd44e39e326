#include "operator/controller/http_server.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <atomic>
#include <stdexcept>

namespace trainyard::control {
namespace {

TEST(HttpServer, ServesHealthReadinessMetricsAndPages) {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter().Name("trainyard_test_total").Register(*registry).Add({}).Increment(3);
  std::atomic<bool> synced = false;
  HttpServer server({.host = "127.0.0.1", .port = 0});
  server.AddLiveness("ping", [] { return absl::OkStatus(); });
  server.AddReadiness("cache", [&] { return synced ? absl::OkStatus() : absl::UnavailableError("pods are not listed yet"); });
  server.ServeMetrics(registry);
  server.AddPage("/jobs/(.*)", [](const std::string& path, const std::map<std::string, std::string>& query) {
    if (query.contains("boom")) throw std::runtime_error("boom");
    return HttpPage{.code = 418, .content_type = "text/html", .body = path + "?" + query.at("q")};
  });
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();

  httplib::Client client("127.0.0.1", *port);
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  auto ready = client.Get("/readyz");
  EXPECT_EQ(ready->status, 503);
  EXPECT_NE(ready->body.find("[-]cache failed: pods are not listed yet"), std::string::npos) << ready->body;
  synced = true;
  EXPECT_EQ(client.Get("/readyz")->status, 200);
  EXPECT_NE(client.Get("/metrics")->body.find("trainyard_test_total 3"), std::string::npos);
  auto page = client.Get("/jobs/a?q=1");
  EXPECT_EQ(page->status, 418);
  EXPECT_EQ(page->body, "/jobs/a?1");
  EXPECT_EQ(client.Get("/jobs/a?boom=1")->status, 500);
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  EXPECT_GE(client.Post("/healthz", std::string(200 << 10, 'x'), "text/plain")->status, 400);

  HttpServer second({.host = "127.0.0.1", .port = *port});
  const auto taken = second.Start();
  EXPECT_TRUE(absl::IsUnavailable(taken.status()));
  EXPECT_NE(taken.status().message().find("127.0.0.1:" + std::to_string(*port)), absl::string_view::npos);
}

}  // namespace
}  // namespace trainyard::control
