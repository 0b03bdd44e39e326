#include "trainer/base/staged_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "trainer/base/abandoned.h"
#include "trainer/base/faulty_disk.h"
#include "trainer/base/file.h"
#include "trainer/base/test_process.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kKilled = 77;

class StagedFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "staged_folder_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    path_ = dir_ + "/best";
  }
  absl::Status Put(std::string_view text, Disk& disk = RealDisk()) {
    TY_ASSIGN_OR_RETURN(StagedFolder folder, StagedFolder::Create(path_, disk));
    TY_RETURN_IF_ERROR(WriteFileDurably(folder.path() + "/text", text, disk));
    return folder.Replace();
  }
  std::string Standing() {
    const absl::StatusOr<std::string> text = ReadFile(StandingFolder(path_) + "/text");
    return text.ok() ? *text : std::string(text.status().message());
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_)) names.push_back(entry.path().filename().string());
    return names;
  }
  // Runs Put(text) in a process that ends before its `operation`-th step; false: it came to its end
  // before that.
  bool PutAndDie(std::string_view text, int operation, bool can_exchange) {
    const int exit_code = ExitCodeOf([&] {
      FaultyDisk disk;
      disk.can_exchange = can_exchange;
      disk.before = [&](int now) {
        if (now == operation) ::_exit(kKilled);
        return absl::OkStatus();
      };
      return Put(text, disk).ok() ? 0 : 1;
    });
    EXPECT_THAT(exit_code, AnyOf(0, kKilled));
    return exit_code == kKilled;
  }

  std::string dir_;
  std::string path_;
};

TEST_F(StagedFolderTest, AKillAtAnyStepLeavesTheOldFolderOrTheNewOneWhole) {
  for (const bool can_exchange : {true, false}) {
    int kills = 0;
    ASSERT_TRUE(Put("old").ok());
    while (PutAndDie("new", kills, can_exchange)) {
      EXPECT_THAT(Standing(), AnyOf("old", "new")) << "killed before step " << kills << ", exchange " << can_exchange;
      ASSERT_TRUE(Put("old").ok()) << "after step " << kills;
      EXPECT_EQ(Standing(), "old");
      EXPECT_THAT(Names(), ElementsAre("best")) << "after step " << kills;
      ++kills;
    }
    EXPECT_GT(kills, 5);
    EXPECT_EQ(Standing(), "new");
  }
}

TEST_F(StagedFolderTest, TwoWritersAtOnceDoNotTouchEachOther) {
  absl::StatusOr<StagedFolder> one = StagedFolder::Create(path_);
  ASSERT_TRUE(one.ok());
  absl::StatusOr<StagedFolder> two = StagedFolder::Create(path_);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_NE(one->path(), two->path());
  ASSERT_TRUE(WriteFileDurably(one->path() + "/text", "one").ok());
  ASSERT_TRUE(WriteFileDurably(two->path() + "/text", "two").ok());
  EXPECT_TRUE(one->Publish().ok());
  EXPECT_TRUE(absl::IsAlreadyExists(two->Publish()));
  EXPECT_EQ(Standing(), "one");
  EXPECT_TRUE(two->Replace().ok());
  EXPECT_EQ(Standing(), "two");
}

TEST_F(StagedFolderTest, AnErrorAtAnyStepLeavesTheOldFolderAndNothingElse) {
  for (const bool can_exchange : {true, false}) {
    ASSERT_TRUE(Put("old").ok());
    for (int failing = 0;; ++failing) {
      FaultyDisk disk;
      disk.can_exchange = can_exchange;
      disk.before = [&](int now) { return now == failing ? absl::ResourceExhaustedError("disk full") : absl::OkStatus(); };
      const absl::Status put = Put("new", disk);
      if (put.ok()) break;
      EXPECT_TRUE(absl::IsResourceExhausted(put)) << put;
      EXPECT_THAT(Standing(), AnyOf("old", "new")) << "step " << failing;  // "new": only its name was not made durable
      EXPECT_THAT(Names(), SizeIs(1)) << "step " << failing;
      ASSERT_TRUE(Put("old").ok());
    }
    EXPECT_EQ(Standing(), "new");
  }
}

TEST_F(StagedFolderTest, AProcessThatIsOutOfFilesSaysSoAndLeavesNothing) {
  const int exit_code = ExitCodeOf([&] {
    const auto next = static_cast<rlim_t>(::dup(STDERR_FILENO));
    ::close(static_cast<int>(next));
    const rlimit none_free{.rlim_cur = next, .rlim_max = next};
    if (::setrlimit(RLIMIT_NOFILE, &none_free) != 0) return 1;
    const absl::Status status = Put("new");
    return absl::IsResourceExhausted(status) && std::string(status.message()).ends_with("Too many open files, see ulimit -n") ? 0 : 2;
  });
  EXPECT_EQ(exit_code, 0);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST(Abandoned, ALiveWritersThingsAreNeverAbandoned) {
  EXPECT_FALSE(WriterIsGone(/*held=*/true, /*local=*/true, absl::Hours(10)));
  EXPECT_FALSE(WriterIsGone(/*held=*/true, /*local=*/false, absl::Hours(10)));
  EXPECT_TRUE(WriterIsGone(/*held=*/false, /*local=*/true, absl::ZeroDuration()));
  // A lock on another machine may not be seen here.
  EXPECT_FALSE(WriterIsGone(/*held=*/false, /*local=*/false, kAbandonedAfter));
  EXPECT_TRUE(WriterIsGone(/*held=*/false, /*local=*/false, kAbandonedAfter + absl::Seconds(1)));
}

}  // namespace
}  // namespace trainyard::engine
