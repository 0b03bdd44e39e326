#include "trainer/checkpoint/vocabulary_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

Vocabulary Of(const std::string& text) {
  TokenStream stream(TokenKind::kWords);
  EXPECT_TRUE(stream.Append(text, "text").ok());
  return {stream, 0, stream.numbers().size(), 100};
}

TEST(VocabularyFile, IsKeptAndComparedOnceThereAreCheckpoints) {
  const std::string dir = testing::TempDir() + "vocabulary_file";
  std::filesystem::remove_all(dir);
  ASSERT_TRUE(KeepVocabulary(dir, Of("a b"), /*has_checkpoints=*/false).ok());
  ASSERT_TRUE(KeepVocabulary(dir, Of("a a b"), /*has_checkpoints=*/false).ok()) << "nothing was trained with it yet";
  EXPECT_TRUE(KeepVocabulary(dir, Of("a b"), /*has_checkpoints=*/true).ok());
  const absl::Status status = KeepVocabulary(dir, Of("a c"), /*has_checkpoints=*/true);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("has 3 tokens and id 1 is \"b\", this job's text gives 3 and \"c\""));
  EXPECT_THAT(std::string(KeepVocabulary(dir, Of("a b c"), true).message()),
              HasSubstr("id 2 is \"<unk>\", this job's text gives 4 and \"c\""));
  EXPECT_EQ(ReadVocabulary(dir + "/vocabulary.json")->size(), 3);
  std::filesystem::remove_all(dir);
  EXPECT_THAT(std::string(ReadVocabulary(dir + "/vocabulary.json").status().message()), HasSubstr("vocabulary.json: No such file"));
}

TEST(VocabularyFile, IsFoundInTheFirstFolderThatHasOne) {
  const std::string dir = testing::TempDir() + "vocabulary_found";
  std::filesystem::remove_all(dir);
  const std::vector<std::string> dirs = {dir + "/step-3", dir};
  const absl::Status nowhere = FindVocabulary(dirs).status();
  EXPECT_TRUE(absl::IsNotFound(nowhere));
  EXPECT_EQ(nowhere.message(), "no vocabulary.json in " + dirs[0] + " or in " + dirs[1]);
  ASSERT_TRUE(KeepVocabulary(dirs[1], Of("a b"), /*has_checkpoints=*/false).ok());
  EXPECT_EQ(*FindVocabulary(dirs), dirs[1] + "/vocabulary.json");
  ASSERT_TRUE(KeepVocabulary(dirs[0], Of("a b"), /*has_checkpoints=*/false).ok());
  EXPECT_EQ(*FindVocabulary(dirs), dirs[0] + "/vocabulary.json");
}

}  // namespace
}  // namespace trainyard::engine
