#include "trainer/report/redone_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

TEST(RedoneLog, KeepsWhatIsAddedUntilTheNextRun) {
  const std::string dir = testing::TempDir() + "redone_log";
  std::filesystem::remove_all(dir);
  EXPECT_TRUE(ReadRedone(dir)->empty());
  ASSERT_TRUE(AddRedone(dir, {.from = 3, .to = 9, .reason = "server 0 was restarted"}).ok());
  ASSERT_TRUE(AddRedone(dir, {.from = 3, .to = 5, .reason = "a step was torn"}).ok());
  const absl::StatusOr<std::vector<RedoneRecord>> records = ReadRedone(dir);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2U);
  EXPECT_EQ((*records)[0].to, 9);
  EXPECT_EQ((*records)[1].reason, "a step was torn");
  ASSERT_TRUE(ClearRedone(dir).ok());
  EXPECT_TRUE(ReadRedone(dir)->empty());
  ASSERT_TRUE(ClearRedone(dir).ok());
  ASSERT_TRUE(WriteFileDurably(dir + "/redone.json", "[").ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadRedone(dir).status()));
}

}  // namespace
}  // namespace trainyard::engine
