#include "trainer/serve/version_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "trainer/serve/test_model.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

class VersionWatchTest : public ::testing::Test {
 protected:
  int64_t version() const { return watch_.current() ? watch_.current()->version() : -1; }
  void Damage(const std::string& checkpoint) {
    std::fstream file(checkpoint + "/parameters.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }

  const std::string dir_ = EmptyFolder();
  int loads_ = 0;
  VersionWatch watch_{dir_, /*best=*/false, [this](const std::string& path) {
                        ++loads_;
                        return LoadModel(path);
                      }};
};

TEST_F(VersionWatchTest, AFolderWithoutACheckpointIsWaitedFor) {
  EXPECT_TRUE(absl::IsNotFound(watch_.Poll()));
  EXPECT_EQ(watch_.current(), nullptr);
  SaveModel(dir_, 5, 1);
  EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 5);
}

TEST_F(VersionWatchTest, ANewerCheckpointReplacesTheVersionWhichStillAnswers) {
  SaveModel(dir_, 5, 1);
  ASSERT_TRUE(watch_.Poll().ok());
  const std::shared_ptr<ServedModel> old = watch_.current();
  SaveModel(dir_, 9, 2);
  ASSERT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 9);
  ServedExamples zeros{.dtype = DType::kF32, .count = 1, .bytes = std::vector<std::byte>(12), .steps = {}};
  Notification answered;
  std::vector<float> values;
  ASSERT_TRUE(old->batcher()
                  .Submit({.examples = std::move(zeros),
                           .deadline = absl::InfiniteFuture(),
                           .done =
                               [&](absl::StatusOr<std::vector<float>> answer) {
                                 values = answer.value_or(std::vector<float>());
                                 answered.Notify();
                                 return true;
                               }})
                  .ok());
  ASSERT_TRUE(answered.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_EQ(values, std::vector<float>{1});
  EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(loads_, 2);
}

TEST_F(VersionWatchTest, ABrokenCheckpointIsRefusedOnceAndTheOldVersionStays) {
  SaveModel(dir_, 5, 1);
  ASSERT_TRUE(watch_.Poll().ok());
  Damage(SaveModel(dir_, 9, 2));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 5);
  EXPECT_EQ(watch_.counts().refused, 1);
  EXPECT_EQ(loads_, 2);
  SaveModel(dir_, 11, 3);
  EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 11);
}

TEST_F(VersionWatchTest, ACheckpointThatWasFoundWhileItWasCopiedIsTakenWhenItIsWhole) {
  SaveModel(dir_, 5, 1);
  ASSERT_TRUE(watch_.Poll().ok());
  const std::string whole = SaveModel(dir_ + "/elsewhere", 9, 2);
  const std::string copy = dir_ + "/step-9";
  std::filesystem::create_directory(copy);
  std::filesystem::copy(whole + "/manifest.json", copy);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(watch_.Poll().ok());
  std::ofstream(copy + "/parameters.safetensors") << "part";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 5);
  using std::filesystem::copy_options;
  std::filesystem::copy(whole, copy, copy_options::recursive | copy_options::overwrite_existing);
  EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 9);
  EXPECT_EQ(watch_.counts().refused, 1);
  EXPECT_EQ(loads_, 4);
}

TEST_F(VersionWatchTest, AtTheStartTheNewestGoodOneIsTaken) {
  SaveModel(dir_, 5, 1);
  Damage(SaveModel(dir_, 9, 2));
  EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 5);
}

TEST_F(VersionWatchTest, AManifestThatWasFoundHalfCopiedIsReadAgain) {
  const std::string checkpoint = SaveModel(dir_, 9, 2);
  const std::string manifest = checkpoint + "/manifest.json";
  std::filesystem::copy(manifest, dir_ + "/whole.json");
  std::filesystem::resize_file(manifest, 10);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(watch_.Poll().ok());
  std::filesystem::copy(dir_ + "/whole.json", manifest, std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 9);
  EXPECT_EQ(watch_.counts().refused, 1);
}

TEST_F(VersionWatchTest, WithoutAGoodOneTheErrorIsThatOfTheBrokenOne) {
  Damage(SaveModel(dir_, 9, 2));
  EXPECT_THAT(std::string(watch_.Poll().message()), HasSubstr("step-9"));
  EXPECT_THAT(std::string(watch_.Poll().message()), HasSubstr("step-9"));
  EXPECT_EQ(watch_.counts().refused, 1);
}

TEST_F(VersionWatchTest, ADivergedCheckpointIsRefused) {
  SaveModel(dir_, 5, 1);
  ASSERT_TRUE(watch_.Poll().ok());
  SaveModel(dir_, 9, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(watch_.Poll().ok());
  EXPECT_EQ(version(), 5);
}

TEST_F(VersionWatchTest, ItsThreadLoadsWhatComes) {
  watch_.Start(absl::Milliseconds(1));
  SaveModel(dir_, 5, 1);
  for (const absl::Time end = absl::Now() + absl::Seconds(60); version() != 5 && absl::Now() < end;) std::this_thread::yield();
  EXPECT_EQ(version(), 5);
}

}  // namespace
}  // namespace trainyard::engine
