#include "trainer/base/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

std::string Folder() {
  const std::string folder = ::testing::TempDir() + "output_file_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(WriteOutputFile, AFileIsMadeAndReplaced) {
  const std::string path = Folder() + "/a b.onnx";
  for (const char* text : {"one", "two"}) {
    ASSERT_TRUE(WriteOutputFile(path, text).ok());
    EXPECT_EQ(*ReadFile(path), text);
  }
}

TEST(WriteOutputFile, ALinkStaysAndItsFileIsReplaced) {
  const std::string folder = Folder();
  std::filesystem::create_directory(folder + "/models");
  std::filesystem::create_symlink("models/a.onnx", folder + "/link");  // relative, and leads nowhere yet
  for (const char* text : {"one", "two"}) {
    ASSERT_TRUE(WriteOutputFile(folder + "/link", text).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
    EXPECT_EQ(*ReadFile(folder + "/models/a.onnx"), text);
  }
}

TEST(WriteOutputFile, APipeGetsTheBytesAndStays) {
  const std::string pipe = Folder() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string bytes(1 << 20, 'x');
  absl::StatusOr<std::string> got;
  std::thread reader([&] { got = ReadFile(pipe); });
  const absl::Status written = WriteOutputFile(pipe, bytes);
  reader.join();
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(*got, bytes);
}

TEST(WriteOutputFile, AFolderIsAnErrorThatNamesIt) {
  const std::string folder = Folder();
  EXPECT_NE(WriteOutputFile(folder, "x").message().find(folder), std::string::npos);
}

}  // namespace
}  // namespace trainyard::engine
