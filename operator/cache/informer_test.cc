#include "operator/cache/informer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "operator/base/fake_clock.h"
#include "tests/fake_apiserver/fake_api_server.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

struct Thing {
  std::string name;
  int value = 0;
  struct {
    std::string uid;
  } meta = {};
};

absl::StatusOr<Thing> ThingFromJson(const Json& object) {
  const auto value = object.find("value");
  if (value != object.end() && !value->is_number()) return absl::InvalidArgumentError("value: expected a number");
  const Json& metadata = object["metadata"];
  return Thing{metadata.value("name", ""), object.value("value", 0), {metadata.value("uid", "")}};
}

Json ThingJson(const std::string& name, int value, const std::string& owner_uid = "", const std::string& ns = "default") {
  Json thing = {{"metadata", {{"name", name}, {"namespace", ns}}}, {"value", value}};
  if (!owner_uid.empty()) thing["metadata"]["ownerReferences"] = {{{"uid", owner_uid}, {"controller", true}, {"name", "o"}}};
  return thing;
}

class InformerTest : public testing::Test {
 protected:
  void StartWith(InformerOptions options = {}) {
    informer_ = std::make_unique<Informer<Thing>>(client_, clock_, kConfigMaps, std::move(options), ThingFromJson);
    informer_->AddHandler([this](const std::shared_ptr<const Thing>& before, const std::shared_ptr<const Thing>& after) {
      const std::lock_guard lock(mutex_);
      told_.push_back(!before ? "+" + after->name : !after ? "-" + before->name : "~" + after->name);
    });
    informer_->Start();
  }
  // Moves time on, so that back-offs pass, until `condition` holds.
  bool Await(const std::function<bool()>& condition) {
    return server_.Await([&] {
      clock_.Advance(absl::Seconds(1));
      return condition();
    });
  }
  bool AwaitValue(const std::string& key, int value) {
    return Await([&] {
      const auto thing = informer_->lister().Get(key);
      return thing != nullptr && thing->value == value;
    });
  }
  bool AwaitGone(const std::string& key) {
    return Await([&] { return informer_->HasSynced() && informer_->lister().Get(key) == nullptr; });
  }
  bool AwaitWatch() {
    return Await([&] { return informer_->HasSynced() && server_.OpenWatches() > 0; });
  }
  // A change can be read a moment before the handlers are told of it.
  bool AwaitTold(const std::vector<std::string>& changes) {
    return Await([&] { return Told() == changes; });
  }
  std::vector<std::string> Told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  int CallsOf(const std::string& verb) {
    const auto calls = server_.Calls();
    return static_cast<int>(std::count_if(calls.begin(), calls.end(), [&](const ApiCall& call) { return call.verb == verb; }));
  }
  // The informer must come to see every later change of the server, whatever happened before.
  void ExpectStillFollows() {
    server_.Put(kConfigMaps, ThingJson("probe", 77));
    EXPECT_TRUE(AwaitValue("default/probe", 77));
  }

  FakeClock clock_;
  FakeApiServer server_{clock_};
  Throttle throttle_{clock_, {.qps = 0}};
  Client client_{server_, throttle_, clock_};
  std::mutex mutex_;
  std::vector<std::string> told_;
  std::unique_ptr<Informer<Thing>> informer_;  // last: its threads end first
};

TEST_F(InformerTest, SeesWhatIsThereThenWhatChanges) {
  server_.Put(kConfigMaps, ThingJson("a", 1));
  StartWith();
  ASSERT_TRUE(AwaitValue("default/a", 1));
  server_.Put(kConfigMaps, ThingJson("b", 2));
  ASSERT_TRUE(AwaitValue("default/b", 2));
  server_.Edit(kConfigMaps, "default", "a", {{"value", 3}});
  ASSERT_TRUE(AwaitValue("default/a", 3));
  server_.Remove(kConfigMaps, "default", "b");
  ASSERT_TRUE(AwaitGone("default/b"));
  EXPECT_TRUE(AwaitTold({"+a", "+b", "~a", "-b"})) << testing::PrintToString(Told());
  EXPECT_EQ(CallsOf("list"), 1);
}

TEST_F(InformerTest, IsNotSyncedBeforeItsFirstListAndIsThenEvenIfThereIsNothing) {
  server_.Inject({.verb = "list", .code = 500, .times = 3});
  StartWith();
  ASSERT_TRUE(server_.Await([&] { return CallsOf("list") >= 1; }));
  EXPECT_FALSE(informer_->HasSynced());
  EXPECT_TRUE(Await([&] { return informer_->HasSynced(); }));
  EXPECT_EQ(informer_->lister().Size(), 0u);
}

TEST_F(InformerTest, AWatchThatBreaksGoesOnWhereItWasWithoutListing) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  server_.Inject({.kind = Fault::Kind::kDropWatch});
  ASSERT_TRUE(Await([&] { return CallsOf("watch") >= 2; }));
  ExpectStillFollows();
  EXPECT_EQ(CallsOf("list"), 1);
}

TEST_F(InformerTest, AWatchThatDiesSilentlyIsNoticed) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  server_.Inject({.kind = Fault::Kind::kStallWatch});
  server_.Put(kConfigMaps, ThingJson("unseen", 1));
  EXPECT_TRUE(AwaitValue("default/unseen", 1));
  EXPECT_GE(CallsOf("watch"), 2);
}

TEST_F(InformerTest, AnExpiredVersionListsAgainAndTellsDeletions) {
  server_.Put(kConfigMaps, ThingJson("a", 1));
  server_.Put(kConfigMaps, ThingJson("b", 1));
  StartWith();
  ASSERT_TRUE(AwaitValue("default/b", 1));
  // While the watch is down one object goes, one comes, one changes, and the history is compacted.
  server_.Inject({.verb = "watch", .code = 500, .times = 3});
  server_.Inject({.kind = Fault::Kind::kDropWatch});
  ASSERT_TRUE(server_.Await([&] { return server_.OpenWatches() == 0; }));
  server_.Remove(kConfigMaps, "default", "a");
  server_.Put(kConfigMaps, ThingJson("c", 1));
  server_.Edit(kConfigMaps, "default", "b", {{"value", 2}});
  server_.Compact();
  ASSERT_TRUE(AwaitGone("default/a"));
  ASSERT_TRUE(AwaitValue("default/b", 2));
  ASSERT_TRUE(AwaitValue("default/c", 1));
  EXPECT_EQ(CallsOf("list"), 2);
  ExpectStillFollows();
  const auto told = Told();
  EXPECT_EQ(std::count(told.begin(), told.end(), "-a"), 1);
  EXPECT_EQ(std::count(told.begin(), told.end(), "+b"), 1);
  EXPECT_EQ(std::count(told.begin(), told.end(), "~b"), 1);
}

TEST_F(InformerTest, ListingAgainTellsNothingAboutWhatIsTheSame) {
  server_.Put(kConfigMaps, ThingJson("a", 1));
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  server_.Inject({.kind = Fault::Kind::kExpireWatch});
  ASSERT_TRUE(Await([&] { return CallsOf("list") == 2 && server_.OpenWatches() > 0; }));
  EXPECT_EQ(Told(), (std::vector<std::string>{"+a"}));
}

TEST_F(InformerTest, GarbageInTheWatchAndRefusedWatchesAreSurvived) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  server_.Inject({.kind = Fault::Kind::kGarbageWatch});
  server_.Inject({.verb = "watch", .code = 429, .reason = "TooManyRequests", .retry_after = "1"});
  server_.Inject({.kind = Fault::Kind::kRefuse, .verb = "watch", .skip = 1, .times = 2});
  ASSERT_TRUE(Await([&] { return CallsOf("watch") >= 4; }));
  ExpectStillFollows();
}

// Nested 101 levels deep.
Json Deep() {
  Json deep = 1;
  for (int i = 0; i < 101; ++i) deep = Json::array({std::move(deep)});
  return deep;
}

TEST_F(InformerTest, ABadItemOfAListAndABadEventStopNothingAndAreToldByName) {
  std::mutex mutex;
  std::vector<std::string> unreadable;
  Json bad = ThingJson("bad", 1);
  bad["spec"] = Deep();
  server_.Put(kConfigMaps, ThingJson("a", 1));
  server_.Put(kConfigMaps, bad);
  server_.Put(kConfigMaps, ThingJson("c", 3));
  StartWith({.on_unreadable = [&](const Resource& resource, const Unreadable& object) {
    const std::lock_guard lock(mutex);
    unreadable.push_back(std::string(resource.plural) + " " + object.Key());
  }});
  ASSERT_TRUE(AwaitWatch());
  ASSERT_TRUE(AwaitValue("default/c", 3));
  server_.Put(kConfigMaps, ThingJson("huge", 1));
  ASSERT_TRUE(AwaitValue("default/huge", 1));
  server_.Edit(kConfigMaps, "default", "huge", {{"spec", std::string(4 << 20, 'x')}, {"value", 2}});
  server_.Edit(kConfigMaps, "default", "a", {{"spec", Deep()}, {"value", 2}});
  server_.Put(kConfigMaps, ThingJson("d", 4));
  ASSERT_TRUE(AwaitValue("default/d", 4));
  EXPECT_EQ(informer_->lister().Get("default/a")->value, 1) << "what was known stays";
  EXPECT_EQ(informer_->lister().Get("default/bad"), nullptr);
  EXPECT_EQ(CallsOf("list"), 1) << "the watch went on";
  server_.Edit(kConfigMaps, "default", "bad", {{"spec", nullptr}});
  EXPECT_TRUE(AwaitValue("default/bad", 1)) << "once it can be read it is there";
  const std::lock_guard lock(mutex);
  EXPECT_EQ(unreadable, (std::vector<std::string>{"configmaps default/bad", "configmaps default/huge", "configmaps default/a"}));
}

TEST_F(InformerTest, AnInformerWhoseHandlerHangsIsNotWellAndOneWithoutAnApiServerIs) {
  server_.Inject({.kind = Fault::Kind::kRefuse, .times = 1000000});
  StartWith();
  ASSERT_TRUE(Await([&] { return CallsOf("list") > 20; }));
  EXPECT_TRUE(informer_->Health().ok()) << informer_->Health();
  std::atomic<bool> hang = true;
  server_.ClearFaults();
  ASSERT_TRUE(AwaitWatch());
  informer_.reset();
  server_.Put(kConfigMaps, ThingJson("a", 1));
  informer_ = std::make_unique<Informer<Thing>>(client_, clock_, kConfigMaps, InformerOptions{}, ThingFromJson);
  informer_->AddHandler([&](const auto&, const auto&) {
    while (hang) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  informer_->Start();
  EXPECT_TRUE(Await([&] { return !informer_->Health().ok(); }));
  EXPECT_NE(informer_->Health().message().find("configmaps: neither listed nor watched for 5m"), absl::string_view::npos)
      << informer_->Health();
  hang = false;
  EXPECT_TRUE(Await([&] { return informer_->Health().ok(); }));
}

TEST_F(InformerTest, BookmarksKeepAQuietWatchFromExpiring) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  for (int i = 0; i < 5; ++i) server_.Put(kPods, ThingJson("other" + std::to_string(i), 1));  // versions move on elsewhere
  server_.SendBookmarks();
  server_.Put(kConfigMaps, ThingJson("after-bookmark", 1));
  ASSERT_TRUE(AwaitValue("default/after-bookmark", 1));
  EXPECT_EQ(CallsOf("list"), 1);
}

TEST_F(InformerTest, AnObjectThatCannotBeReadIsLeftOutAndTheRestGoesOn) {
  Json bad = ThingJson("bad", 1);
  bad["value"] = "text";
  server_.Put(kConfigMaps, bad);
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  ExpectStillFollows();
  EXPECT_EQ(informer_->lister().Get("default/bad"), nullptr);
}

TEST_F(InformerTest, FindsChildrenByTheirControllersUid) {
  server_.Put(kConfigMaps, ThingJson("b", 1, "job-1"));
  server_.Put(kConfigMaps, ThingJson("a", 2, "job-1"));
  server_.Put(kConfigMaps, ThingJson("c", 3, "job-2"));
  server_.Put(kConfigMaps, ThingJson("d", 4));
  StartWith();
  ASSERT_TRUE(AwaitValue("default/d", 4));
  const auto children = informer_->lister().ByOwner("job-1");
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(children[0]->name, "a");
  EXPECT_EQ(children[1]->name, "b");
  // Released, then adopted by another.
  server_.Put(kConfigMaps, ThingJson("a", 5, "job-2"));
  ASSERT_TRUE(AwaitValue("default/a", 5));
  EXPECT_EQ(informer_->lister().ByOwner("job-1").size(), 1u);
  EXPECT_EQ(informer_->lister().ByOwner("job-2").size(), 2u);
  EXPECT_TRUE(informer_->lister().ByOwner("").empty());
  ASSERT_TRUE(informer_->lister().AnyByOwner("job-1"));
  EXPECT_EQ(informer_->lister().AnyByOwner("job-1"), informer_->lister().ByOwner("job-1")[0]);
  EXPECT_FALSE(informer_->lister().AnyByOwner("none"));
}

TEST_F(InformerTest, OwnWritesAreSeenAtOnceAndToldToNobody) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  server_.Inject({.kind = Fault::Kind::kStallWatch});  // the watch will not bring it for long
  const auto created = client_.Create(kConfigMaps, "default", ThingJson("mine", 1));
  ASSERT_TRUE(created.ok());
  informer_->ObserveWrite(*created);
  ASSERT_NE(informer_->lister().Get("default/mine"), nullptr);
  server_.Put(kConfigMaps, ThingJson("marker", 1));
  ASSERT_TRUE(AwaitValue("default/marker", 1));  // the watch came back and brought both
  EXPECT_TRUE(AwaitTold({"+marker"})) << testing::PrintToString(Told());
}

TEST_F(InformerTest, AnOldWriteDoesNotBringBackWhatTheWatchSawDeleted) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  const auto created = client_.Create(kConfigMaps, "default", ThingJson("mine", 1));
  ASSERT_TRUE(created.ok());
  ASSERT_TRUE(AwaitValue("default/mine", 1));
  server_.Remove(kConfigMaps, "default", "mine");
  ASSERT_TRUE(AwaitGone("default/mine"));
  informer_->ObserveWrite(*created);  // the worker was slow
  EXPECT_EQ(informer_->lister().Get("default/mine"), nullptr);
}

TEST_F(InformerTest, AnOwnDeleteIsSeenAtOnce) {
  const Json stored = server_.Put(kConfigMaps, ThingJson("a", 1));
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  informer_->ObserveDelete("default/a", "another uid");
  EXPECT_NE(informer_->lister().Get("default/a"), nullptr);
  informer_->ObserveDelete("default/a", stored["metadata"]["uid"].get<std::string>());
  EXPECT_EQ(informer_->lister().Get("default/a"), nullptr);
}

TEST_F(InformerTest, WatchesOnlyTheNamespacesItWasGiven) {
  server_.Put(kConfigMaps, ThingJson("a", 1, "", "one"));
  server_.Put(kConfigMaps, ThingJson("a", 1, "", "two"));
  server_.Put(kConfigMaps, ThingJson("a", 1, "", "three"));
  StartWith({.namespaces = {"one", "two"}});
  ASSERT_TRUE(Await([&] { return informer_->HasSynced() && server_.OpenWatches() == 2; }));
  EXPECT_EQ(informer_->lister().Size(), 2u);
  // One namespace listing again keeps the other's objects.
  server_.Compact();
  server_.Inject({.kind = Fault::Kind::kDropWatch, .times = 2});
  ASSERT_TRUE(Await([&] { return CallsOf("list") >= 4; }));
  server_.Put(kConfigMaps, ThingJson("b", 2, "", "two"));
  ASSERT_TRUE(AwaitValue("two/b", 2));
  EXPECT_EQ(informer_->lister().Size(), 3u);
}

TEST_F(InformerTest, AServerThatIsGoneForMinutesIsAskedSeldomAndFollowedAgain) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  server_.CrashAtWrite(0, FakeApiServer::CrashPoint::kBefore);
  EXPECT_FALSE(client_.Create(kConfigMaps, "default", ThingJson("x", 1)).ok());
  ASSERT_TRUE(server_.Crashed());
  for (int i = 0; i < 300; ++i) {
    clock_.Advance(absl::Seconds(1));
    server_.Await([] { return true; });
  }
  server_.Revive();
  ExpectStillFollows();
}

TEST_F(InformerTest, StopEndsAWatchThatIsSilent) {
  StartWith();
  ASSERT_TRUE(AwaitWatch());
  informer_->Stop();
  EXPECT_EQ(server_.OpenWatches(), 0);
}

}  // namespace
}  // namespace trainyard::control
