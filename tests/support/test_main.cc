// main() of every C++ test program: gives each process a folder of its own for what it writes, and
// removes it at the end.
//
// The logger is made before any thread: spdlog is not built with ThreadSanitizer, which so cannot
// see that its first use is guarded.
//
// ctest runs each test in a process of its own and several at once, also those of two build
// folders. All would share testing::TempDir(), so it names this folder (TEST_TMPDIR, see
// GoogleTest's TempDir()).
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  spdlog::default_logger();
  std::string folder = (std::filesystem::temp_directory_path() / "trainyard-test-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return 1;
  }
  ::setenv("TEST_TMPDIR", (folder + "/").c_str(), 1);
  const int status = RUN_ALL_TESTS();
  std::error_code ignored;  // a test that leaves a folder nobody may remove has said so itself
  std::filesystem::remove_all(folder, ignored);
  return status;
}
