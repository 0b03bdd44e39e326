#include "trainer/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "trainer/base/faulty_disk.h"
#include "trainer/base/file_error.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/test_process.h"

namespace trainyard::engine {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string FreshFolder() {
  std::string folder = ::testing::TempDir() + "file_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(File, ReadsBackWhatReplaceWrote) {
  std::string path = FreshFolder() + "/a";
  ASSERT_TRUE(ReplaceFile(path, "old").ok());
  std::string text(100000, 'x');
  ASSERT_TRUE(ReplaceFile(path, text).ok());
  EXPECT_EQ(*ReadFile(path), text);
}

TEST(File, ReplaceLeavesNoTemporaryFile) {
  std::string folder = FreshFolder();
  ASSERT_TRUE(ReplaceFile(folder + "/a", "1").ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1);
}

TEST(File, AMissingFileIsNotFoundAndNamed) {
  auto text = ReadFile("no/such/file");
  EXPECT_EQ(text.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("cannot open no/such/file: No such file"));
}

TEST(File, AFolderIsNoFile) { EXPECT_THAT(std::string(ReadFile(FreshFolder()).status().message()), HasSubstr("Is a directory")); }

TEST(File, AFileLongerThanTheLimitIsRefused) {
  std::string path = FreshFolder() + "/a";
  ASSERT_TRUE(WriteFileDurably(path, "0123456789").ok());
  EXPECT_EQ(*ReadFile(path, 10), "0123456789");
  EXPECT_EQ(ReadFile(path, 9).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(FileError, SaysWhatToDoAboutALimitOfOpenFilesAndAboutAFullDisk) {
  const absl::Status files = FileError(EMFILE, "open", "a");
  EXPECT_EQ(files.message(), "cannot open a: Too many open files, see ulimit -n");
  EXPECT_EQ(NextStepFor(WithContext(files, "the checkpoint")), "raise that limit");
  EXPECT_EQ(NextStepFor(FileError(ENFILE, "open", "a")), "raise that limit");
  EXPECT_EQ(NextStepFor(FileError(ENOSPC, "write", "a")), "make room there");
}

TEST(File, AFullDiskIsResourceExhausted) {
  absl::Status status = WriteFileDurably("/dev/full", "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write /dev/full: No space left on device"));
}

TEST(File, AVolumeThatDoesNotAnswerMayAnswerAgain) {
  for (const int error : {EIO, ESTALE, ETIMEDOUT, ENOTCONN, ENOSPC, EDQUOT}) EXPECT_TRUE(MayPass(FileError(error, "write", "a"))) << error;
  for (const int error : {EACCES, EROFS, ENOENT, EISDIR}) EXPECT_FALSE(MayPass(FileError(error, "write", "a"))) << error;
  EXPECT_TRUE(TellIfMayPass(FileError(EIO, "write", "a"), "report.json").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(TellIfMayPass(FileError(EROFS, "write", "a"), "report.json")));
}

TEST(File, AFileThatIsHalfWrittenIsRemoved) {
  const std::string path = FreshFolder() + "/a";
  FaultyDisk disk;
  for (const int faulty : {1, 2}) {  // in the middle of Append, and Sync
    disk.before = [faulty](int operation) { return operation % 3 == faulty ? absl::ResourceExhaustedError("full") : absl::OkStatus(); };
    EXPECT_TRUE(absl::IsResourceExhausted(WriteFileDurably(path, "text", disk))) << faulty;
    EXPECT_FALSE(std::filesystem::exists(path)) << faulty;
    while (disk.operations() % 3 != 0) disk.SyncFolder("/").IgnoreError();
  }
}

TEST(File, AKillAtAnyStepOfAReplaceLeavesTheOldFileOrTheNewOne) {
  constexpr int kKilled = 77;
  const std::string folder = FreshFolder();
  const std::string path = folder + "/a";
  ASSERT_TRUE(ReplaceFile(path, "old").ok());
  int kills = 0;
  for (int exit_code = kKilled; exit_code == kKilled; ++kills) {
    exit_code = ExitCodeOf([&] {
      FaultyDisk disk;
      disk.before = [&](int now) {
        if (now == kills) ::_exit(kKilled);
        return absl::OkStatus();
      };
      return ReplaceFile(path, "new", disk).ok() ? 0 : 1;
    });
    EXPECT_THAT(*ReadFile(path), AnyOf("old", "new"));
    ASSERT_TRUE(ReplaceFile(path, "old").ok());
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1) << "step " << kills;
  }
  EXPECT_GT(kills, 4);
}

TEST(File, AFailedReplaceKeepsTheOldFile) {
  std::string folder = FreshFolder();
  std::filesystem::create_directories(folder + "/taken/inside");
  EXPECT_FALSE(ReplaceFile(folder + "/taken", "x").ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/taken/inside"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1);
}

}  // namespace
}  // namespace trainyard::engine
