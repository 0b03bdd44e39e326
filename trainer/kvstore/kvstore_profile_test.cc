// Workers and servers write down profiled steps, and differing clocks are found out from that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "trainer/base/clock.h"
#include "trainer/kvstore/client.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/server.h"
#include "trainer/profile/clock_offsets.h"
#include "trainer/profile/exchanges.h"
#include "trainer/transport/inproc_transport.h"

namespace trainyard::engine {
namespace {

constexpr int kWorkers = 2;
constexpr int kServers = 2;
constexpr int64_t kProfiledSteps = 6;
constexpr StepRange kProfiled{.begin = 2, .end = 5};

class SkewedClock final : public Clock {
 public:
  explicit SkewedClock(absl::Duration skew) : skew_(skew) {}
  absl::Time Now() override { return RealClock().Now() + skew_; }
  absl::Time Wall() override { return RealClock().Wall() + skew_; }

 private:
  const absl::Duration skew_;
};

std::vector<ParameterSpec> ProfiledSpecs() {
  return {{.name = "a", .shape = Shape({300}), .trainable = true},
          {.name = "b", .shape = Shape({200}), .trainable = true},
          {.name = "c", .shape = Shape({100}), .trainable = true}};
}

TrainingState ProfiledStart() { return {.parameters = ParameterSet(ProfiledSpecs()), .slots = {}, .step = 0}; }

void Train(Transport& transport, KvMode mode, int index, SpanLog* log) {
  auto client = KvClient::Create({.servers = {"ps-0", "ps-1"},
                                  .worker = index,
                                  .workers = kWorkers,
                                  .chief = index == 0,
                                  .mode = mode,
                                  .specs = ProfiledSpecs(),
                                  .load = [](bool) { return ProfiledStart(); },
                                  .profile = log},
                                 transport);
  ASSERT_TRUE(client.ok()) << client.status();
  ParameterSet parameters(ProfiledSpecs());
  const ParameterSet gradients(ProfiledSpecs());
  ASSERT_TRUE((*client)->Start(parameters).ok());
  for (int64_t step = 0; step < kProfiledSteps; ++step) {
    for (int key = 0; key < parameters.size(); ++key) (*client)->PushGradient(key, gradients.values(key), step);
    ASSERT_TRUE((*client)->Wait(parameters).ok());
  }
  (*client)->Done();
}

// Runs a whole job of 2 workers and 2 servers, whose clocks are off by `skews` (workers first);
// returns what they wrote down.
std::vector<ReplicaProfile> RunJob(KvMode mode, const std::array<absl::Duration, kWorkers + kServers>& skews) {
  std::vector<std::unique_ptr<SkewedClock>> clocks;
  std::vector<std::unique_ptr<SpanLog>> logs;
  for (const absl::Duration skew : skews) {
    clocks.push_back(std::make_unique<SkewedClock>(skew));
    logs.push_back(std::make_unique<SpanLog>(kProfiled, *clocks.back()));
    logs.back()->Reserve(1000);
  }
  const std::unique_ptr<Transport> transport = MakeInprocTransport();
  std::vector<std::unique_ptr<KvServer>> servers;
  std::vector<std::thread> threads;
  for (int i = 0; i < kServers; ++i) {
    auto server = KvServer::Create({.address = "ps-" + std::to_string(i),
                                    .server = i,
                                    .servers = kServers,
                                    .workers = kWorkers,
                                    .mode = mode,
                                    .optimizer = {.name = "sgd"},
                                    .specs = ProfiledSpecs(),
                                    .profile = logs[kWorkers + i].get()},
                                   *transport);
    EXPECT_TRUE(server.ok()) << server.status();
    servers.push_back(*std::move(server));
  }
  for (auto& server : servers) threads.emplace_back([&server] { EXPECT_TRUE(server->Run().ok()); });
  for (int i = 0; i < kWorkers; ++i) threads.emplace_back([&, i] { Train(*transport, mode, i, logs[i].get()); });
  for (std::thread& thread : threads) thread.join();

  std::vector<ReplicaProfile> profiles;
  for (int i = 0; i < kWorkers + kServers; ++i) {
    const bool server = i >= kWorkers;
    profiles.push_back({.role = server ? "ps" : "worker",
                        .index = server ? i - kWorkers : i,
                        .rank = server ? -1 : i,
                        .steps = kProfiled,
                        .operators = {},
                        .tensors = {"a", "b", "c"},
                        .spans = logs[i]->spans()});
    EXPECT_EQ(logs[i]->dropped(), 0);
  }
  return profiles;
}

class KvstoreProfileTest : public ::testing::TestWithParam<KvMode> {};

TEST_P(KvstoreProfileTest, EveryPushOfTheProfiledStepsHasItsSumAndItsPull) {
  const std::vector<ReplicaProfile> profiles = RunJob(GetParam(), {});
  const std::vector<Exchange> exchanges = FindExchanges(profiles);
  ASSERT_EQ(exchanges.size(), kWorkers * kProfiled.size() * ProfiledSpecs().size());
  for (const Exchange& exchange : exchanges) {
    EXPECT_TRUE(kProfiled.Contains(exchange.push->step));
    EXPECT_LE(exchange.push->start, exchange.receive->start);
    EXPECT_LE(exchange.receive->start, exchange.sum->end);
    EXPECT_LE(exchange.sum->end, exchange.arrived->start);
    EXPECT_LE(exchange.arrived->start, exchange.pull->end);
  }
}

TEST_P(KvstoreProfileTest, ClocksThatDifferAreFoundOutWithinTheStatedUncertainty) {
  const std::array<absl::Duration, 4> skews = {absl::Seconds(30), absl::Seconds(-40), absl::Seconds(90), absl::Minutes(90)};
  const std::vector<ReplicaProfile> profiles = RunJob(GetParam(), skews);
  const std::vector<ClockOffset> offsets = AlignClocks(profiles, FindExchanges(profiles));
  ASSERT_EQ(offsets.size(), skews.size());
  for (size_t i = 0; i < skews.size(); ++i) {
    EXPECT_TRUE(offsets[i].known);
    EXPECT_NEAR(static_cast<double>(offsets[i].nanos), absl::ToDoubleNanoseconds(skews[0] - skews[i]),
                static_cast<double>(offsets[i].uncertainty) + 1e6)
        << profiles[i].name();
    EXPECT_LT(offsets[i].uncertainty, 10'000'000'000) << profiles[i].name();  // less than the clocks differ
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, KvstoreProfileTest, ::testing::Values(KvMode::kSync, KvMode::kAsync),
                         [](const auto& info) { return std::string(KvModeName(info.param)); });

}  // namespace
}  // namespace trainyard::engine
