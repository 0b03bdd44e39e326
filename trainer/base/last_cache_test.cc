#include "trainer/base/last_cache.h"

#include <gtest/gtest.h>

#include <string>

#include "trainer/base/test_root.h"

namespace trainyard::engine {
namespace {

class LastCacheTest : public RootTest {
 protected:
  void WriteCache(const std::string& index, const std::string& size, const std::string& sharers = "0-1", int processor = 0) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(processor) + "/cache/" + index;
    Write(folder + "/size", size);
    Write(folder + "/shared_cpu_list", sharers + "\n");
  }
};

TEST_F(LastCacheTest, ItIsTheLargest) {
  WriteCache("index0", "32K\n");
  WriteCache("index2", "1024K\n");
  WriteCache("index3", "32768K\n");
  WriteCache("uevent", "64M");
  EXPECT_EQ(LastCacheBytes(root_), size_t{32} << 20);
}

TEST_F(LastCacheTest, OnesThatProcessorsShareCountOnce) {
  for (int processor = 0; processor < 8; ++processor) {
    WriteCache("index0", "32K", std::to_string(processor), processor);
    WriteCache("index3", "16384K", processor < 4 ? "0-3" : "4-7", processor);
  }
  EXPECT_EQ(LastCacheBytes(root_), size_t{32} << 20);
}

TEST_F(LastCacheTest, UnitsAreBytesKibibytesAndMebibytes) {
  WriteCache("index0", "4096\n");
  EXPECT_EQ(LastCacheBytes(root_), 4096);
  WriteCache("index1", "16K\n");
  EXPECT_EQ(LastCacheBytes(root_), 16 << 10);
  WriteCache("index2", "2M\n");
  EXPECT_EQ(LastCacheBytes(root_), 2 << 20);
}

TEST_F(LastCacheTest, WhatIsNoSizeCountsForNothing) {
  for (const char* const size : {"", "K", "-1K", "1.5M", "8G", "99999999999999999999K", "4294967296M"}) {
    WriteCache("index0", size);
    EXPECT_EQ(LastCacheBytes(root_), 0) << size;
  }
}

TEST_F(LastCacheTest, WithoutSysfsItIsUnknown) { EXPECT_EQ(LastCacheBytes(root_), 0); }

}  // namespace
}  // namespace trainyard::engine
