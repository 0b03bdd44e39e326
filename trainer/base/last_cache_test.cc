#include "trainer/base/last_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

class LastCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& index, const std::string& size, const std::string& sharers = "0-1", int processor = 0) {
    const fs::path folder = root_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(processor)) / "cache" / index;
    fs::create_directories(folder);
    std::ofstream(folder / "size") << size;
    std::ofstream(folder / "shared_cpu_list") << sharers << "\n";
  }

  fs::path root_;
};

TEST_F(LastCacheTest, ItIsTheLargest) {
  Write("index0", "32K\n");
  Write("index2", "1024K\n");
  Write("index3", "32768K\n");
  Write("uevent", "64M");
  EXPECT_EQ(LastCacheBytes(root_), size_t{32} << 20);
}

TEST_F(LastCacheTest, OnesThatProcessorsShareCountOnce) {
  for (int processor = 0; processor < 8; ++processor) {
    Write("index0", "32K", std::to_string(processor), processor);
    Write("index3", "16384K", processor < 4 ? "0-3" : "4-7", processor);
  }
  EXPECT_EQ(LastCacheBytes(root_), size_t{32} << 20);
}

TEST_F(LastCacheTest, UnitsAreBytesKibibytesAndMebibytes) {
  Write("index0", "4096\n");
  EXPECT_EQ(LastCacheBytes(root_), 4096);
  Write("index1", "16K\n");
  EXPECT_EQ(LastCacheBytes(root_), 16 << 10);
  Write("index2", "2M\n");
  EXPECT_EQ(LastCacheBytes(root_), 2 << 20);
}

TEST_F(LastCacheTest, WhatIsNoSizeCountsForNothing) {
  for (const char* const size : {"", "K", "-1K", "1.5M", "8G", "99999999999999999999K", "4294967296M"}) {
    Write("index0", size);
    EXPECT_EQ(LastCacheBytes(root_), 0) << size;
  }
}

TEST_F(LastCacheTest, WithoutSysfsItIsUnknown) { EXPECT_EQ(LastCacheBytes(root_), 0); }

}  // namespace
}  // namespace trainyard::engine
