#include "operator/kube/client.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "operator/base/fake_clock.h"
#include "operator/kube/errors.h"
#include "tests/fake_apiserver/fake_api_server.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

Json PodJson(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"namespace", "default"}, {"labels", {{"app", "x"}}}}},
          {"spec", {{"a", 1}}}};
}

// Where every object can be read.
const UnreadableHandler kNone = [](const Unreadable& object) { ADD_FAILURE() << object.Key() << ": " << object.problem; };

class ClientTest : public testing::Test {
 protected:
  FakeClock clock_;
  FakeApiServer server_{clock_};
  Throttle throttle_{clock_, {.qps = 0}};
  Client client_{server_, throttle_, clock_};
};

TEST_F(ClientTest, CreatesReadsUpdatesAndDeletes) {
  const auto created = client_.Create(kPods, "default", PodJson("a"));
  ASSERT_TRUE(created.ok()) << created.status();
  auto pod = client_.Get(kPods, "default", "a");
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(*pod, *created);
  (*pod)["spec"]["a"] = 2;
  const auto updated = client_.Update(kPods, *pod);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_TRUE(IsConflict(client_.Update(kPods, *pod).status())) << "the old resourceVersion was taken";
  const auto gone = client_.Delete(kPods, "default", "a", {.uid = (*created)["metadata"]["uid"]});
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_TRUE(gone->is_null());
  EXPECT_TRUE(absl::IsNotFound(client_.Get(kPods, "default", "a").status()));
}

TEST_F(ClientTest, StatusIsWrittenThroughItsSubresourceOnly) {
  Json job = {{"metadata", {{"name", "j"}, {"namespace", "default"}}}, {"spec", {{"x", 1}}}, {"status", {{"phase", "Smuggled"}}}};
  auto created = client_.Create(kTrainingJobs, "default", job);
  ASSERT_TRUE(created.ok());
  EXPECT_FALSE(created->contains("status"));
  (*created)["status"] = {{"phase", "Running"}};
  (*created)["spec"]["x"] = 2;
  const auto updated = client_.UpdateStatus(kTrainingJobs, *created);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ((*updated)["status"]["phase"], "Running");
  EXPECT_EQ((*updated)["spec"]["x"], 1);
}

TEST_F(ClientTest, ADeleteOfAnotherUidIsAConflictAndDeletesNothing) {
  server_.Put(kPods, PodJson("a"));
  EXPECT_TRUE(IsConflict(client_.Delete(kPods, "default", "a", {.uid = "another"}).status()));
  EXPECT_TRUE(server_.Find(kPods, "default", "a").has_value());
}

TEST_F(ClientTest, ARunningPodIsTerminatingAfterItsDelete) {
  Json pod = PodJson("a");
  pod["spec"]["nodeName"] = "n1";
  pod["status"]["phase"] = "Running";
  server_.Put(kPods, pod);
  const auto deleted = client_.Delete(kPods, "default", "a");
  ASSERT_TRUE(deleted.ok());
  EXPECT_TRUE((*deleted)["metadata"].contains("deletionTimestamp"));
  const auto forced = client_.Delete(kPods, "default", "a", {.grace_period_seconds = 0});
  ASSERT_TRUE(forced.ok());
  EXPECT_TRUE(forced->is_null());
}

TEST_F(ClientTest, NothingIsWrittenAfterTheLeaseAndReadsGoOn) {
  absl::Duration lease_ends = clock_.Monotonic() + absl::Seconds(10);
  Client client(server_, throttle_, clock_, {.write_until = [&] { return lease_ends; }});
  ASSERT_TRUE(client.Create(kPods, "default", PodJson("a")).ok());
  clock_.Advance(absl::Seconds(10));
  EXPECT_TRUE(absl::IsFailedPrecondition(client.Create(kPods, "default", PodJson("b")).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(client.Delete(kPods, "default", "a").status()));
  EXPECT_EQ(server_.Writes(), 1);
  EXPECT_TRUE(client.Get(kPods, "default", "a").ok());
  lease_ends = clock_.Monotonic() + absl::Seconds(1);
  EXPECT_TRUE(client.Create(kPods, "default", PodJson("b")).ok()) << "it was renewed after all";
}

TEST_F(ClientTest, ListsAllPagesAndNamesTheListsVersion) {
  for (int i = 0; i < 25; ++i) server_.Put(kPods, PodJson("p" + std::to_string(i)));
  int seen = 0;
  const auto version = client_.List(
      kPods, "default", {.label_selector = "app=x", .page_size = 10},
      [&](Json&& pod) {
        EXPECT_TRUE(pod["metadata"].contains("uid"));
        ++seen;
        return absl::OkStatus();
      },
      kNone);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(seen, 25);
  EXPECT_EQ(server_.Calls().size(), 3u);
  EXPECT_GT(std::stoll(*version), 0);
  seen = 0;
  ASSERT_TRUE(client_.List(kPods, "default", {.label_selector = "app!=x"}, [&](Json&&) { return ++seen, absl::OkStatus(); }, kNone).ok());
  EXPECT_EQ(seen, 0);
}

TEST_F(ClientTest, ListsAllPagesOfAKindOfWhichSomeFieldsAreRead) {
  Client client(server_, throttle_, clock_, {.read = {{"pods", {"spec.nodeName"}}}});
  for (int i = 0; i < 25; ++i) server_.Put(kPods, PodJson("p" + std::to_string(i)));
  int seen = 0;
  const auto version = client.List(
      kPods, "default", {.page_size = 10},
      [&](Json&& pod) {
        EXPECT_FALSE(pod["spec"].contains("a"));
        ++seen;
        return absl::OkStatus();
      },
      kNone);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(seen, 25);
}

TEST_F(ClientTest, AContinueTokenThatExpiredEndsTheList) {
  for (int i = 0; i < 5; ++i) server_.Put(kPods, PodJson("p" + std::to_string(i)));
  int seen = 0;
  const auto version = client_.List(
      kPods, "", {.page_size = 2},
      [&](Json&&) {
        if (++seen == 2) server_.Compact();
        return absl::OkStatus();
      },
      kNone);
  EXPECT_TRUE(IsExpired(version.status())) << version.status();
}

TEST_F(ClientTest, OfEachKindWhatTheOptionsNameIsRead) {
  Client client(server_, throttle_, clock_, {.read = {{"services", {"spec.type"}}}});
  Json service = PodJson("a");
  service["spec"] = {{"type", "ClusterIP"}, {"clusterIP", "None"}};
  const auto created = client.Create(kServices, "default", service);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ((*created)["spec"], Json({{"type", "ClusterIP"}}));
  const auto items = [](Json&& item) {
    EXPECT_EQ(item["spec"], Json({{"type", "ClusterIP"}}));
    EXPECT_EQ(item["metadata"]["name"], "a");
    return absl::OkStatus();
  };
  EXPECT_TRUE(client.List(kServices, "", {}, items, kNone).ok());
  server_.Put(kPods, PodJson("b"));
  const auto pod = client.Get(kPods, "default", "b");
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_TRUE(pod->contains("spec")) << "nothing is said of pods";
}

TEST_F(ClientTest, TooManyRequestsIsTriedAgainAfterRetryAfterAndHoldsEverybody) {
  server_.Inject({.verb = "create", .code = 429, .reason = "TooManyRequests", .retry_after = "5", .times = 1});
  absl::Status status = absl::UnknownError("");
  std::thread creator([&] { status = client_.Create(kPods, "default", PodJson("a")).status(); });
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(throttle_.Acquire(clock_.Monotonic() + absl::Seconds(1), {}))) << "others are held too";
  clock_.Advance(absl::Seconds(5));
  creator.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(server_.Calls().size(), 2u);
}

TEST_F(ClientTest, ATooLongRetryAfterIsTheCallersToWaitFor) {
  server_.Inject({.verb = "create", .code = 429, .reason = "TooManyRequests", .retry_after = "300"});
  const absl::Status status = client_.Create(kPods, "default", PodJson("a")).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(ClientTest, AServerErrorIsTheCallersToRetry) {
  server_.Inject({.verb = "create", .code = 500});
  const absl::Status status = client_.Create(kPods, "default", PodJson("a")).status();
  EXPECT_EQ(HttpCode(status), 500);
  EXPECT_EQ(server_.Calls().size(), 1u);
  EXPECT_NE(status.ToString().find("create pods default/a: 500 InternalError"), std::string::npos) << status;
}

TEST_F(ClientTest, AReadOverADeadConnectionIsTriedAgainAWriteIsNot) {
  server_.Put(kPods, PodJson("a"));
  server_.Inject({.kind = Fault::Kind::kRefuse, .verb = "get"});
  absl::Status status;
  std::thread reader([&] { status = client_.Get(kPods, "default", "a").status(); });
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  clock_.Advance(absl::Seconds(1));
  reader.join();
  EXPECT_TRUE(status.ok()) << status;

  server_.Inject({.kind = Fault::Kind::kLoseAnswer, .verb = "create"});
  EXPECT_TRUE(absl::IsUnavailable(client_.Create(kPods, "default", PodJson("b")).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(client_.Create(kPods, "default", PodJson("b")).status())) << "it had been done";
}

TEST_F(ClientTest, HalfAnAnswerIsDataLoss) {
  server_.Put(kPods, PodJson("a"));
  server_.Inject({.kind = Fault::Kind::kHalfAnswer, .verb = "get"});
  EXPECT_TRUE(absl::IsDataLoss(client_.Get(kPods, "default", "a").status()));
  server_.Inject({.kind = Fault::Kind::kHalfAnswer, .verb = "list"});
  EXPECT_TRUE(absl::IsDataLoss(client_.List(kPods, "", {}, [](Json&&) { return absl::OkStatus(); }, kNone).status()));
}

TEST_F(ClientTest, StopEndsRequestsThatWaitForTheirTurn) {
  throttle_.PauseFor(absl::Seconds(10));
  absl::Status status;
  std::thread reader([&] { status = client_.Get(kPods, "default", "a").status(); });
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  client_.Stop();
  reader.join();
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST_F(ClientTest, PatchMergesAndAppliesToTheSubresourceItNames) {
  server_.Put(kTrainingJobs, {{"metadata", {{"name", "j"}}}, {"spec", {{"x", 1}}}, {"status", {{"a", 1}}}});
  const auto patched =
      client_.Patch(kTrainingJobs, "default", "j", PatchType::kMerge, {{"status", {{"b", 2}}}, {"spec", {{"x", 9}}}}, "status");
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ((*patched)["status"], Json({{"a", 1}, {"b", 2}}));
  EXPECT_EQ((*patched)["spec"]["x"], 1);
}

TEST_F(ClientTest, TextThatIsNoUtf8IsSentMended) {
  Json pod = PodJson("a");
  pod["metadata"]["annotations"]["tail"] = "bad \xff byte";
  ASSERT_TRUE(client_.Create(kPods, "default", pod).ok());
  EXPECT_EQ((*server_.Find(kPods, "default", "a"))["metadata"]["annotations"]["tail"], "bad \xEF\xBF\xBD byte");
}

TEST(EscapeQuery, LeavesOnlyUnreservedBytes) { EXPECT_EQ(EscapeQuery("a b/c=d,\xc3\xa9~"), "a%20b%2Fc%3Dd%2C%C3%A9~"); }

}  // namespace
}  // namespace trainyard::control
