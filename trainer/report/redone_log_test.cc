#include "trainer/report/redone_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

// Chiefs, each of which is lost where the next one opens the log.
class RedoneLogTest : public testing::Test {
 protected:
  RedoneLogTest() { std::filesystem::remove_all(dir_); }

  std::unique_ptr<RedoneLog> NextChief() {
    absl::StatusOr<std::unique_ptr<RedoneLog>> log = RedoneLog::Open(dir_);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  // "90-97 reason" of each record.
  std::vector<std::string> List() {
    const std::unique_ptr<RedoneLog> log = NextChief();
    std::vector<std::string> list;
    for (const RedoneRecord& record : log->records()) {
      list.push_back(std::to_string(record.from) + "-" + std::to_string(record.to) + " " + record.reason);
    }
    return list;
  }

  using Lines = std::vector<std::string>;
  const std::string dir_ = testing::TempDir() + "redone_log";
};

constexpr const char* kLost = "the chief was lost, and what was left held no later step";

TEST_F(RedoneLogTest, ListsWhatAChiefThatLivesTakesBack) {
  const std::unique_ptr<RedoneLog> log = NextChief();
  EXPECT_FALSE(log->under_way());
  EXPECT_FALSE(log->Begin(0, std::nullopt)->has_value());
  log->Reach(7);
  EXPECT_TRUE(log->Begin(3, RedoneRecord{.from = 3, .to = 9, .reason = "server 0 was restarted"})->has_value());
  EXPECT_EQ(List(), Lines({"3-9 server 0 was restarted"}));
}

TEST_F(RedoneLogTest, AChiefThatIsLostInARollbackOrWithAllServersLosesNoneAndListsNoneTwice) {
  ASSERT_TRUE(NextChief()->Begin(0, std::nullopt).ok());
  {
    const std::unique_ptr<RedoneLog> log = NextChief();
    ASSERT_TRUE(log->Begin(0, std::nullopt).ok());
    for (int64_t step = 1; step <= 97; ++step) log->Reach(step);
  }
  // The one before has filled the servers anew, at step 90, and was lost before it said so.
  ASSERT_TRUE(NextChief()->Begin(90, std::nullopt).ok());
  EXPECT_EQ(List(), Lines({std::string("90-97 ") + kLost}));
  // The next one goes on behind it, and the next two as well.
  NextChief();
  ASSERT_FALSE(NextChief()->Begin(90, std::nullopt)->has_value());
  {
    const std::unique_ptr<RedoneLog> log = NextChief();
    ASSERT_FALSE(log->Begin(92, std::nullopt)->has_value());
    log->Reach(95);
  }
  ASSERT_TRUE(NextChief()->Begin(90, std::nullopt)->has_value());
  EXPECT_EQ(List(), Lines({std::string("90-97 ") + kLost, std::string("90-95 ") + kLost}));
}

TEST_F(RedoneLogTest, AChiefThatIsLostBetweenItsTwoFilesHasListedTheRollback) {
  {
    const std::unique_ptr<RedoneLog> log = NextChief();
    ASSERT_TRUE(log->Begin(0, std::nullopt).ok());
    log->Reach(97);
  }
  const std::string before = *ReadFile(dir_ + "/reached");
  ASSERT_TRUE(NextChief()->Begin(90, std::nullopt)->has_value());
  ASSERT_TRUE(WriteFileDurably(dir_ + "/reached", before).ok());
  EXPECT_TRUE(NextChief()->under_way());
  EXPECT_FALSE(NextChief()->Begin(90, std::nullopt)->has_value());
}

TEST_F(RedoneLogTest, PeersMayKnowMoreThanTheFiles) {
  {
    const std::unique_ptr<RedoneLog> log = NextChief();
    ASSERT_TRUE(log->Begin(0, std::nullopt).ok());
    log->Reach(5);
  }
  ASSERT_TRUE(NextChief()->Begin(3, RedoneRecord{.from = 3, .to = 6, .reason = std::string(3000, 'x')}).ok());
  EXPECT_EQ(List(), Lines({"3-6 " + std::string(1000, 'x')}));
}

TEST_F(RedoneLogTest, TheRunThatFollowsAnotherHasAListOfItsOwn) {
  {
    const std::unique_ptr<RedoneLog> log = NextChief();
    ASSERT_TRUE(log->Begin(0, std::nullopt).ok());
    log->Reach(5);
    ASSERT_TRUE(log->Begin(3, std::nullopt).ok());
    ASSERT_TRUE(log->End().ok());
  }
  const std::unique_ptr<RedoneLog> log = NextChief();
  EXPECT_EQ(log->records().size(), 1U) << "a chief that is lost at its end reports it again";
  EXPECT_FALSE(log->under_way());
  ASSERT_TRUE(log->Forget().ok());
  EXPECT_FALSE(log->Begin(0, std::nullopt)->has_value());
  EXPECT_EQ(List(), Lines());
  ASSERT_TRUE(RedoneLog::Clear(dir_).ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(RedoneLogTest, ADamagedListIsNamedAndADamagedPlaceIsTheStart) {
  ASSERT_TRUE(NextChief()->Begin(4, std::nullopt).ok());
  ASSERT_TRUE(WriteFileDurably(dir_ + "/reached", "").ok());
  EXPECT_TRUE(NextChief()->under_way());
  EXPECT_FALSE(NextChief()->Begin(2, std::nullopt)->has_value());
  ASSERT_TRUE(WriteFileDurably(dir_ + "/redone.json", "[").ok());
  EXPECT_TRUE(absl::IsDataLoss(RedoneLog::Open(dir_).status()));
  ASSERT_TRUE(WriteFileDurably(dir_ + "/redone.json", R"({"redone": [], "times": 1e300})").ok());
  EXPECT_TRUE(absl::IsDataLoss(RedoneLog::Open(dir_).status()));
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  ASSERT_TRUE(WriteFileDurably(dir_ + "/redone.json", R"({"redone": [], "more": )" + deep + "}").ok());
  EXPECT_TRUE(absl::IsDataLoss(RedoneLog::Open(dir_).status()));
}

}  // namespace
}  // namespace trainyard::engine
