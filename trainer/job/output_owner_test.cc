#include "trainer/job/output_owner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "trainer/base/clock.h"
#include "trainer/base/file.h"
#include "trainer/base/notification.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kNever = absl::Hours(1);  // between beats of the thread: tests beat by hand

class OutputOwnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "output_owner_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  OutputOwnerOptions Job(const std::string& uid, bool chief = true) const {
    return {.output = dir_, .job_name = "mnist", .job_uid = uid, .chief = chief, .beat = kNever};
  }
  absl::StatusOr<std::unique_ptr<OutputOwner>> Claim(OutputOwnerOptions options, const OutputOwner::Wait& wait = MustNotWait) const {
    return OutputOwner::Claim(std::move(options), wait, [](const absl::Status&) {});
  }
  // Moves the last beat into the past.
  void Ages(absl::Duration age) const {
    const timespec at = absl::ToTimespec(RealClock().Wall() - age);
    const timespec times[] = {at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, (dir_ + "/job.json").c_str(), times, 0), 0);
  }
  std::string Mark() const { return ReadFile(dir_ + "/job.json").value_or("(none)"); }
  static bool MustNotWait(absl::Duration) {
    ADD_FAILURE() << "it waits";
    return false;
  }

  std::string dir_;
};

TEST_F(OutputOwnerTest, AnEmptyFolderBecomesTheJobs) {
  ASSERT_TRUE(Claim(Job("a")).ok());
  EXPECT_EQ(Mark(), "{\"name\":\"mnist\",\"uid\":\"a\"}\n");
}

TEST_F(OutputOwnerTest, AllReplicasOfAJobShareItsFolder) {
  const auto first = Claim(Job("a"));
  const auto second = Claim(Job("a", false));
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE((*first)->Beat().ok() && (*second)->Beat().ok());
}

TEST_F(OutputOwnerTest, ReplicasThatStartAtOnceAllGetTheirFolder) {
  std::vector<std::thread> replicas;
  std::atomic<int> got = 0;
  for (int i = 0; i < 8; ++i) replicas.emplace_back([&] { got += Claim(Job("a")).ok() ? 1 : 0; });
  for (std::thread& replica : replicas) replica.join();
  EXPECT_EQ(got, 8);
  const auto files = std::distance(std::filesystem::directory_iterator(dir_), std::filesystem::directory_iterator());
  EXPECT_EQ(files, 1) << "only job.json is left";
}

TEST_F(OutputOwnerTest, AFolderOfAnotherJobThatBeatsIsRefusedByName) {
  const auto first = Claim(Job("a"));
  ASSERT_TRUE(first.ok());
  Ages(absl::Seconds(5));
  const auto second = Claim(Job("b"), [&](absl::Duration) { return (*first)->Beat().ok() && (*first)->Beat().ok(); });
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("is that of job mnist (uid a), which still runs"));
  EXPECT_TRUE((*first)->Beat().ok()) << "it is still the first one's";
}

TEST_F(OutputOwnerTest, AJobThatWasKilledLeavesItsFolderWhenItHasNotBeatenForLong) {
  ASSERT_TRUE(Claim(Job("a")).ok());
  Ages(absl::Seconds(5));
  absl::Duration age = absl::Seconds(5);
  const auto second = Claim(Job("b"), [&](absl::Duration wait) {
    age += wait;
    Ages(age);
    return true;
  });
  EXPECT_TRUE(second.ok()) << second.status();
  EXPECT_GE(age, absl::Seconds(60));
}

TEST_F(OutputOwnerTest, AJobThatHasEndedLeavesItsFolderAtOnce) {
  {
    const auto first = Claim(Job("a"));
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE((*first)->End().ok());
    EXPECT_TRUE(Claim(Job("a", false)).ok());
    EXPECT_THAT(Mark(), HasSubstr("ended")) << "a replica that outlives the chief does not take back its word";
  }
  const auto second = Claim(Job("b"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Mark(), HasSubstr("\"b\""));
}

TEST_F(OutputOwnerTest, AJobWhoseFolderWasTakenIsTold) {
  const auto first = Claim(Job("a"));
  ASSERT_TRUE(first.ok());
  Ages(absl::Minutes(5));
  const auto second = Claim(Job("b"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*first)->Beat().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(OutputOwnerTest, TheBeatsTellOfALostFolder) {
  OutputOwnerOptions options = Job("a");
  options.beat = absl::Milliseconds(1);
  Notification told;
  const auto first = OutputOwner::Claim(options, MustNotWait, [&](const absl::Status&) { told.Notify(); });
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(ReplaceFile(dir_ + "/job.json", R"({"name": "other", "uid": "b"})").ok());
  EXPECT_TRUE(told.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

TEST_F(OutputOwnerTest, AStopEndsTheWait) {
  ASSERT_TRUE(Claim(Job("a")).ok());
  EXPECT_EQ(Claim(Job("b"), [](absl::Duration) { return false; }).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(OutputOwnerTest, AFileThatNamesNoJobIsToldWithWhatToDo) {
  std::filesystem::create_directories(dir_);
  for (const char* text : {"", "[]", "{\"uid\": 3}", "{\"name\": \"x\"}", "\xff\xfe"}) {
    ASSERT_TRUE(ReplaceFile(dir_ + "/job.json", text).ok());
    const auto claimed = Claim(Job("a"));
    EXPECT_EQ(claimed.status().code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_THAT(std::string(claimed.status().message()), HasSubstr("remove the file")) << text;
  }
}

}  // namespace
}  // namespace trainyard::engine
