#include "operator/controller/event_recorder.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "operator/base/fake_clock.h"
#include "tests/fake_apiserver/fake_api_server.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

class EventRecorderTest : public testing::Test {
 protected:
  void StartWith(EventRecorderOptions options = {}) {
    recorder_ = std::make_unique<EventRecorder>(client_, clock_, metrics_, std::move(options));
    recorder_->Start();
  }
  void Record(const std::string& reason, const std::string& note, const std::string& job = "mnist") {
    recorder_->Record({"trainyard.dev/v1alpha1", "TrainingJob", "default", job, "uid-" + job, "5"}, EventType::kNormal, reason, "Reconcile",
                      note);
  }
  std::vector<Json> Events() { return server_.All(kEvents); }
  bool Await(const std::function<bool()>& condition) {
    return server_.Await([&] {
      clock_.Advance(absl::Milliseconds(200));
      return condition();
    });
  }
  std::string Metric(const std::string& name) {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, registry_.Collect());
    const size_t at = text.str().find("\n" + name + " ");
    return at == std::string::npos ? "" : text.str().substr(at + name.size() + 2, text.str().find('\n', at + 1) - at - name.size() - 2);
  }

  FakeClock clock_;
  FakeApiServer server_{clock_};
  Throttle throttle_{clock_, {.qps = 0}};
  Client client_{server_, throttle_, clock_, {.max_attempts = 1}};
  prometheus::Registry registry_;
  ControllerMetrics metrics_{registry_};
  std::unique_ptr<EventRecorder> recorder_;
};

TEST_F(EventRecorderTest, AnEventNamesWhatItIsAbout) {
  StartWith({.instance = "pod-1"});
  Record("PodsCreated", "created 4 pods");
  ASSERT_TRUE(Await([&] { return Events().size() == 1; }));
  const Json event = Events()[0];
  EXPECT_EQ(event["regarding"], Json({{"apiVersion", "trainyard.dev/v1alpha1"},
                                      {"kind", "TrainingJob"},
                                      {"namespace", "default"},
                                      {"name", "mnist"},
                                      {"uid", "uid-mnist"},
                                      {"resourceVersion", "5"}}));
  EXPECT_EQ(event["reason"], "PodsCreated");
  EXPECT_EQ(event["action"], "Reconcile");
  EXPECT_EQ(event["note"], "created 4 pods");
  EXPECT_EQ(event["type"], "Normal");
  EXPECT_EQ(event["reportingController"], "trainyard.dev/operator");
  EXPECT_EQ(event["reportingInstance"], "pod-1");
  EXPECT_FALSE(event.contains("series"));
}

TEST_F(EventRecorderTest, RepeatsBecomeACountNotMoreEvents) {
  StartWith();
  Record("Restarting", "worker 1 failed");
  ASSERT_TRUE(Await([&] { return Events().size() == 1; }));
  for (int i = 0; i < 50; ++i) Record("Restarting", "worker 1 failed");
  ASSERT_TRUE(Await([&] { return Events()[0].contains("series"); }));
  EXPECT_EQ(Events().size(), 1u);
  EXPECT_EQ(Events()[0]["series"]["count"], 51);
  EXPECT_EQ(server_.Writes(), 2) << "fifty repeats cost one request";
}

TEST_F(EventRecorderTest, AnotherNoteReasonOrObjectIsAnotherEvent) {
  StartWith();
  Record("A", "x");
  Record("A", "y");
  Record("B", "x");
  Record("A", "x", "other");
  EXPECT_TRUE(Await([&] { return Events().size() == 4; }));
}

TEST_F(EventRecorderTest, ARepeatAfterTheWindowIsANewEvent) {
  StartWith();
  Record("A", "x");
  ASSERT_TRUE(Await([&] { return Events().size() == 1; }));
  clock_.Advance(absl::Minutes(10));
  Record("A", "x");
  EXPECT_TRUE(Await([&] { return Events().size() == 2; }));
}

TEST_F(EventRecorderTest, NoneIsLostWhenTheServerIsGoneForAWhile) {
  StartWith();
  server_.Inject({.kind = Fault::Kind::kRefuse, .times = 5});
  server_.Inject({.kind = Fault::Kind::kLoseAnswer, .times = 2});
  for (int i = 0; i < 30; ++i) Record("A", std::to_string(i));
  ASSERT_TRUE(Await([&] { return Events().size() == 30; }));
  EXPECT_TRUE(Await([&] { return Metric("trainyard_events_sent_total") == "30"; })) << Metric("trainyard_events_sent_total");
  EXPECT_EQ(Metric("trainyard_events_dropped_total"), "0");
}

TEST_F(EventRecorderTest, WhatTheServerRefusesForGoodIsDroppedAndCounted) {
  StartWith();
  server_.Inject({.verb = "create", .code = 403, .reason = "Forbidden"});
  Record("A", "x");
  ASSERT_TRUE(Await([&] { return Metric("trainyard_events_dropped_total") == "1"; }));
  Record("B", "x");
  EXPECT_TRUE(Await([&] { return Events().size() == 1; }));
}

TEST_F(EventRecorderTest, AFullQueueDropsAndCountsButNeverWaits) {
  recorder_ = std::make_unique<EventRecorder>(client_, clock_, metrics_, EventRecorderOptions{.capacity = 10});
  for (int i = 0; i < 25; ++i) Record("A", std::to_string(i));  // not started: nothing is sent
  EXPECT_EQ(Metric("trainyard_events_dropped_total"), "15");
}

TEST_F(EventRecorderTest, AnEventThatExpiredAtTheServerIsWrittenAnew) {
  StartWith();
  Record("A", "x");
  ASSERT_TRUE(Await([&] { return Events().size() == 1; }));
  server_.Remove(kEvents, "default", Events()[0]["metadata"]["name"].get<std::string>());
  Record("A", "x");
  ASSERT_TRUE(Await([&] { return Events().size() == 1; }));
  EXPECT_EQ(Events()[0]["series"]["count"], 2);
}

TEST_F(EventRecorderTest, StopSendsWhatWaits) {
  StartWith();
  Record("A", "x");
  Record("A", "x");
  Record("B", "y");
  EXPECT_TRUE(recorder_->Stop(absl::Seconds(5)));
  EXPECT_EQ(Events().size(), 2u);
  Record("C", "too late");
  EXPECT_EQ(Metric("trainyard_events_dropped_total"), "1");
}

TEST_F(EventRecorderTest, ALongNoteIsCutBetweenCharacters) {
  StartWith();
  std::string note(1023, 'x');
  Record("A", note + "\xc3\xa9\xc3\xa9");
  ASSERT_TRUE(Await([&] { return Events().size() == 1; }));
  EXPECT_EQ(Events()[0]["note"], note);
}

}  // namespace
}  // namespace trainyard::control
