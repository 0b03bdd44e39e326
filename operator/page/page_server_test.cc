#include "operator/page/page_server.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <thread>

#include "operator/page/test_stores.h"

namespace trainyard::control {
namespace {

TEST(PageServer, StreamsFollowTheStoresWhileTheyChange) {
  constexpr int kSteps = 200;
  TestStores stores;
  stores.Put(MakeJob());
  PageServer server(RealClock(), stores.jobs, stores.pods, {.look_every = absl::Milliseconds(1)});
  const auto port = server.Start();
  ASSERT_TRUE(port.ok()) << port.status();
  const std::string last = "\"step\":" + std::to_string(kSteps);
  std::atomic<int> ready = 0;
  std::atomic<int> followed = 0;
  std::vector<std::thread> readers;
  for (const char* path : {"/api/v1/jobs?watch=true", "/api/v1/jobs/default/mnist?watch=true", "/api/v1/jobs?watch=true"}) {
    readers.emplace_back([&, path] {
      httplib::Client client("127.0.0.1", *port);
      std::string got;
      client.Get(path, [&](const char* bytes, size_t count) {
        if (got.empty()) ++ready;
        got.append(bytes, count);
        return got.find(last) == got.npos;
      });
      if (got.find(last) != got.npos) ++followed;
    });
  }
  while (ready < 3) std::this_thread::yield();
  for (int step = 1; step <= kSteps; ++step) stores.Put(MakeJob().Set("/status/progress", {{"step", step}}));
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(followed, 3);
  server.Stop();
  EXPECT_FALSE(httplib::Client("127.0.0.1", *port).Get("/"));
}

}  // namespace
}  // namespace trainyard::control
