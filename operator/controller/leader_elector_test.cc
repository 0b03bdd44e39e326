#include "operator/controller/leader_elector.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "operator/base/fake_clock.h"
#include "operator/base/timestamp.h"
#include "tests/fake_apiserver/fake_api_server.h"

namespace trainyard::control {
namespace {

// Answers to writes, late ones from ComeLate on: as for a process that is stopped meanwhile.
class LateAnswers final : public Transport {
 public:
  LateAnswers(Transport& server, FakeClock& clock) : server_(server), clock_(clock) {}
  void ComeLate(int seconds) { late_seconds_ = seconds; }
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    absl::StatusOr<HttpResponse> answer = server_.Send(request);
    if (request.method == "PUT") clock_.Advance(absl::Seconds(late_seconds_.load()));
    return answer;
  }
  absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, absl::Duration idle,
                                      const std::function<bool(std::string_view)>& on_data) override {
    return server_.Stream(request, idle, on_data);
  }

 private:
  Transport& server_;
  FakeClock& clock_;
  std::atomic<int> late_seconds_ = 0;
};

class LeaderElectorTest : public testing::Test {
 protected:
  struct Candidate {
    Candidate(LeaderElectorTest& test, const std::string& identity)
        : throttle(test.clock_, {.qps = 0}),
          elector(
              test.answers_, throttle, test.clock_, {.ns = "default", .identity = identity, .client = {.max_attempts = 1}},
              [this] { ++started; }, [this] { ++lost; }) {
      elector.Start();
    }
    bool leads() const { return started > lost; }

    Throttle throttle;
    std::atomic<int> started = 0;
    std::atomic<int> lost = 0;
    LeaderElector elector;
  };

  // Time passes while `sleepers` candidates wait for it, so that none misses a deadline for want of
  // a processor.
  bool Await(const std::function<bool()>& condition, size_t sleepers = 1) {
    return server_.Await([&] {
      clock_.AdvanceWhileAwaited(absl::Milliseconds(500), sleepers);
      return condition();
    });
  }
  nlohmann::json Spec() { return (*server_.Find(kLeases, "default", "trainyard-operator"))["spec"]; }

  FakeClock clock_;
  FakeApiServer server_{clock_};
  LateAnswers answers_{server_, clock_};
};

TEST_F(LeaderElectorTest, TheFirstCandidateTakesAFreshLeaseAndRenewsIt) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  EXPECT_EQ(Spec()["holderIdentity"], "a");
  EXPECT_EQ(Spec()["leaseDurationSeconds"], 15);
  EXPECT_EQ(Spec()["leaseTransitions"], 0);
  const std::string renewed = Spec()["renewTime"];
  EXPECT_TRUE(Await([&] { return Spec()["renewTime"] != renewed; }));
  EXPECT_TRUE(a.leads());
}

TEST_F(LeaderElectorTest, ARenewalIsOneRequest) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  server_.ForgetCalls();
  ASSERT_TRUE(Await([&] { return server_.Calls().size() >= 5; }));
  for (const ApiCall& call : server_.Calls()) EXPECT_EQ(call.verb, "update");
  EXPECT_TRUE(a.leads());
}

TEST_F(LeaderElectorTest, ALeaderKeepsTheLeaseThatOthersLabelOrDelete) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  server_.Edit(kLeases, "default", "trainyard-operator", {{"metadata", {{"labels", {{"team", "ml"}}}}}});
  const std::string renewed = Spec()["renewTime"];
  EXPECT_TRUE(Await([&] { return Spec()["renewTime"] != renewed; }));
  EXPECT_EQ((*server_.Find(kLeases, "default", "trainyard-operator"))["metadata"]["labels"]["team"], "ml");
  server_.Remove(kLeases, "default", "trainyard-operator");
  EXPECT_TRUE(Await([&] { return server_.Find(kLeases, "default", "trainyard-operator").has_value(); }));
  EXPECT_EQ(Spec()["holderIdentity"], "a");
  EXPECT_TRUE(a.leads());
}

TEST_F(LeaderElectorTest, ASecondCandidateWaitsAndTakesOverWhenTheFirstIsReleased) {
  auto a = std::make_unique<Candidate>(*this, "a");
  ASSERT_TRUE(Await([&] { return a->leads(); }));
  Candidate b(*this, "b");
  const int calls = static_cast<int>(server_.Calls().size());
  ASSERT_TRUE(Await([&] { return static_cast<int>(server_.Calls().size()) > calls + 20; }, 2));
  EXPECT_EQ(b.started, 0);
  const absl::Duration stopped = clock_.Monotonic();
  a->elector.Stop();
  EXPECT_EQ(a->lost, 1);
  EXPECT_NE(Spec()["holderIdentity"], "a");
  EXPECT_TRUE(Await([&] { return b.leads(); }));
  EXPECT_LT(clock_.Monotonic() - stopped, absl::Seconds(15)) << "waited for the lease to expire";
  EXPECT_EQ(Spec()["leaseTransitions"], 1);
}

TEST_F(LeaderElectorTest, ALeaderThatCannotRenewStopsActingBeforeAnotherCanStart) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  Candidate b(*this, "b");
  // a's writes fail from here on; b's reads work.
  server_.Inject({.kind = Fault::Kind::kRefuse, .verb = "update", .times = 1000000});
  ASSERT_TRUE(Await(
      [&] {
        EXPECT_FALSE(a.leads() && b.leads());
        return a.lost == 1;
      },
      2));
  server_.ClearFaults();
  ASSERT_TRUE(Await([&] {
    EXPECT_FALSE(a.leads() && b.leads());
    return b.leads() || a.leads();
  }));
}

TEST_F(LeaderElectorTest, ALeaseIsTakenOverOnlyAfterItsDurationWasSeenToPassWhateverItsTimestampsSay) {
  // A holder whose clock is a year behind: by its timestamps the lease has long expired.
  server_.Put(kLeases, {{"metadata", {{"name", "trainyard-operator"}}},
                        {"spec",
                         {{"holderIdentity", "dead"},
                          {"leaseDurationSeconds", 15},
                          {"renewTime", FormatMicroTimestamp(clock_.Now() - absl::Hours(24 * 365))},
                          {"leaseTransitions", 6}}}});
  const absl::Duration began = clock_.Monotonic();
  Candidate b(*this, "b");
  clock_.JumpWallClock(absl::Hours(100));  // nor does the own clock matter
  ASSERT_TRUE(Await([&] { return b.leads(); }));
  EXPECT_GE(clock_.Monotonic() - began, absl::Seconds(15));
  EXPECT_EQ(Spec()["leaseTransitions"], 7);
}

TEST_F(LeaderElectorTest, ALeaseTakenFromUnderTheLeaderEndsItsLeadership) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  server_.Edit(kLeases, "default", "trainyard-operator", {{"spec", {{"holderIdentity", "thief"}}}});
  EXPECT_TRUE(Await([&] { return a.lost == 1; }));
  EXPECT_EQ(Spec()["holderIdentity"], "thief");
}

TEST_F(LeaderElectorTest, ARenewalThatIsAnsweredTooLateEndsTheLeadershipAndIsTold) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  testing::internal::CaptureStdout();
  answers_.ComeLate(11);
  EXPECT_TRUE(Await([&] { return a.lost == 1; }));
  a.elector.Stop();
  const std::string told = testing::internal::GetCapturedStdout();
  EXPECT_NE(told.find("a no longer leads: DEADLINE_EXCEEDED: the answer to a renewal came behind the renew deadline"), std::string::npos)
      << told;
}

TEST_F(LeaderElectorTest, ShortTroublesDoNotCostTheLease) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  server_.Inject({.kind = Fault::Kind::kLoseAnswer, .verb = "update"});
  server_.Inject({.verb = "get", .code = 500});
  const size_t calls = server_.Calls().size();
  ASSERT_TRUE(Await([&] { return server_.Calls().size() > calls + 20; }));
  EXPECT_EQ(a.lost, 0);
}

TEST_F(LeaderElectorTest, WritesAreAllowedWhileTheLeaseIsHeldAndForNoLongerThanItsDeadline) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  EXPECT_GT(a.elector.MayWriteUntil(), clock_.Monotonic());
  EXPECT_LE(a.elector.MayWriteUntil(), clock_.Monotonic() + absl::Seconds(10));
  a.elector.Stop();
  EXPECT_EQ(Spec()["holderIdentity"], "");
  EXPECT_LT(a.elector.MayWriteUntil(), clock_.Monotonic());
}

TEST_F(LeaderElectorTest, AnElectorThatLostItsLeaseDoesNotLeadAgain) {
  Candidate a(*this, "a");
  ASSERT_TRUE(Await([&] { return a.leads(); }));
  server_.Edit(kLeases, "default", "trainyard-operator", {{"spec", {{"holderIdentity", "thief"}}}});
  ASSERT_TRUE(Await([&] { return a.lost == 1; }));
  EXPECT_LT(a.elector.MayWriteUntil(), clock_.Monotonic());
  server_.Remove(kLeases, "default", "trainyard-operator");
  Candidate b(*this, "b");
  ASSERT_TRUE(Await([&] { return b.leads(); }));
  EXPECT_EQ(a.started, 1);
}

TEST_F(LeaderElectorTest, AnElectorThatIsStuckSaysSo) {
  std::stop_source release;
  Throttle throttle(clock_, {.qps = 0});
  LeaderElector elector(
      server_, throttle, clock_, {.ns = "default", .identity = "a", .client = {.max_attempts = 1}},
      [&] {
        while (!release.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      [] {});
  elector.Start();
  EXPECT_TRUE(elector.Health().ok()) << elector.Health();
  ASSERT_TRUE(Await([&] { return !elector.Health().ok(); }, 0));
  EXPECT_NE(elector.Health().message().find("lease default/trainyard-operator: neither asked for nor renewed for 1m"),
            absl::string_view::npos);
  release.request_stop();
  EXPECT_TRUE(Await([&] { return elector.Health().ok(); }, 0)) << elector.Health();
}

TEST_F(LeaderElectorTest, ALeaseThatIsNonsenseIsTakenOver) {
  server_.Put(kLeases, {{"metadata", {{"name", "trainyard-operator"}}},
                        {"spec", {{"holderIdentity", 7}, {"leaseDurationSeconds", "long"}, {"leaseTransitions", nullptr}}}});
  Candidate a(*this, "a");
  EXPECT_TRUE(Await([&] { return a.leads(); }));
}

}  // namespace
}  // namespace trainyard::control
