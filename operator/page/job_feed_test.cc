#include "operator/page/job_feed.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/base/fake_clock.h"
#include "operator/page/test_stores.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

class JobFeedTest : public testing::Test {
 protected:
  static MakeJob Job(const std::string& name, int step = 0) {
    MakeJob job;
    job.Name(name).Set("/metadata/uid", name + "-uid");
    if (step > 0) job.Set("/status/progress", {{"step", step}, {"loss", 1.0 / step}});
    return job;
  }

  // The data of the only event of that name in the text.
  static json DataOf(const std::shared_ptr<const std::string>& text, const std::string& name) {
    if (text == nullptr) return "nothing";
    const std::string head = "event: " + name + "\ndata: ";
    const size_t at = text->find(head);
    if (at == text->npos) return "no event " + name + " in " + *text;
    return json::parse(text->substr(at + head.size(), text->find("\n\n", at) - at - head.size()));
  }

  FakeClock clock_;
  TestStores stores_;
  JobFeed feed_{clock_, stores_.jobs, stores_.pods};
};

TEST_F(JobFeedTest, AStreamGetsAllJobsOnceAndThenWhatChanges) {
  stores_.Put(Job("a"));
  stores_.Put(Job("b"));
  feed_.Look();
  const auto stream = feed_.WatchJobs();
  EXPECT_EQ(DataOf(stream->Next(), "jobs").at("jobs").size(), 2);
  EXPECT_EQ(stream->Next(), nullptr);
  feed_.Look();
  EXPECT_EQ(stream->Next(), nullptr) << "nothing has changed";
  stores_.Put(Job("b", 5));
  stores_.jobs.Remove("default/a", "");
  feed_.Look();
  const json news = DataOf(stream->Next(), "changed");
  ASSERT_EQ(news.at("jobs").size(), 1);
  EXPECT_EQ(news.at("jobs")[0].at("name"), "b");
  EXPECT_EQ(news.at("gone"), json({"a-uid"}));
}

TEST_F(JobFeedTest, AReaderThatMissedChangesGetsAllJobsInsteadOfAQueue) {
  feed_.Look();
  const auto slow = feed_.WatchJobs();
  slow->Next();
  for (int step = 1; step <= 100; ++step) {
    stores_.Put(Job("a", step));
    feed_.Look();
  }
  const json all = DataOf(slow->Next(), "jobs");
  ASSERT_EQ(all.at("jobs").size(), 1);
  EXPECT_EQ(all.at("jobs")[0].at("step"), 100);
  EXPECT_EQ(slow->Next(), nullptr);
}

TEST_F(JobFeedTest, ReadersOfOneVersionShareOneText) {
  stores_.Put(Job("a"));
  feed_.Look();
  const auto first = feed_.WatchJobs();
  const auto second = feed_.WatchJobs();
  EXPECT_EQ(first->Next(), second->Next());
  EXPECT_EQ(feed_.Jobs(), feed_.Jobs());
}

TEST_F(JobFeedTest, AJobOfTheSameNameBeginsANewCurve) {
  for (const int step : {10, 20}) {
    stores_.Put(Job("a", step));
    feed_.Look();
  }
  EXPECT_EQ(json::parse(*feed_.Job("default/a")).at("curve").size(), 2);
  stores_.Put(Job("a", 5).Set("/metadata/uid", "another"));
  feed_.Look();
  EXPECT_EQ(json::parse(*feed_.Job("default/a")).at("curve"), json::parse("[[5, 0.2, null]]"));
}

TEST_F(JobFeedTest, OneJobsStreamFollowsItsPodsAndTellsItsEnd) {
  stores_.Put(MakeJob().Replicas("worker", 1));
  const auto stream = feed_.WatchJob("default/mnist");
  const auto first = stream->Next();
  EXPECT_TRUE(DataOf(first, "clock").is_number()) << *first;
  EXPECT_EQ(DataOf(first, "job").at("replicas")[0].at("state"), "Absent");
  EXPECT_EQ(stream->Next(), nullptr);
  stores_.Put(MakePod(Role::kWorker, 0).Ready());
  EXPECT_EQ(DataOf(stream->Next(), "job").at("replicas")[0].at("state"), "Running");
  stores_.jobs.Remove("default/mnist", "");
  EXPECT_EQ(DataOf(stream->Next(), "gone"), json::object());
  EXPECT_EQ(stream->Next(), nullptr);
}

TEST_F(JobFeedTest, TextsThatAreNoUtf8AndLinesInThemStayOneEvent) {
  stores_.Put(Job("a").Set("/status", {{"message", "\xff\n\ndata: mine\r\n"}}));
  feed_.Look();
  const json all = DataOf(feed_.WatchJobs()->Next(), "jobs");
  EXPECT_EQ(all.at("jobs")[0].at("message"), "\xEF\xBF\xBD\n\ndata: mine\r\n");
}

}  // namespace
}  // namespace trainyard::control
