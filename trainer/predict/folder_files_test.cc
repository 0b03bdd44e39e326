#include "trainer/predict/folder_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class FolderFilesTest : public testing::Test {
 protected:
  FolderFilesTest() { fs::remove_all(dir_); }
  void Touch(const std::string& name) {
    fs::create_directories(fs::path(dir_ + "/" + name).parent_path());
    std::ofstream(dir_ + "/" + name) << "x";
  }
  std::string ErrorOf(const std::string& folder) { return std::string(PicturesIn(folder).status().message()); }

  const std::string dir_ = testing::TempDir() + "folder_files_test_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(FolderFilesTest, AFolderStandsForThePicturesInItByName) {
  for (const char* name : {"b.PNG", "a.jpeg", "c.jpg", "notes.txt", ".d.png", "within/e.png"}) Touch(name);
  EXPECT_THAT(FilesOfFolders({"first.npy", dir_, "-"}), ElementsAre("first.npy", dir_ + "/a.jpeg", dir_ + "/b.PNG", dir_ + "/c.jpg", "-"));
}

TEST_F(FolderFilesTest, AFolderWithoutPicturesIsNamedAndAFolderWithinIt) {
  Touch("empty/notes.txt");
  EXPECT_THAT(ErrorOf(dir_ + "/empty"), HasSubstr("/empty is a folder without .png or .jpg pictures; name files, or a folder of pictures"));
  Touch("classes/cat/a.png");
  EXPECT_THAT(ErrorOf(dir_ + "/classes"), HasSubstr("a folder of pictures such as " + dir_ + "/classes/cat"));
}

TEST_F(FolderFilesTest, WhatHasNoPicturesStaysForTheReaderToTell) {
  Touch("notes.txt");
  EXPECT_THAT(FilesOfFolders({"missing.png", dir_}), ElementsAre("missing.png", dir_));
}

}  // namespace
}  // namespace trainyard::engine
