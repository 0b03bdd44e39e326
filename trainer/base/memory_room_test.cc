#include "trainer/base/memory_room.h"

#include <gtest/gtest.h>

#include <limits>

#include "trainer/base/test_root.h"

namespace trainyard::engine {
namespace {

class MemoryRoomTest : public RootTest {};

TEST_F(MemoryRoomTest, WithoutALimitTheMachineIsTheBound) {
  Write("proc/meminfo", "MemTotal:       8000 kB\nMemFree:  10 kB\nMemAvailable:    3000 kB\n");
  const MemoryRoom room = ReadMemoryRoom(root_);
  EXPECT_EQ(room.available, 3000 * 1024);
  EXPECT_EQ(room.limit, std::numeric_limits<int64_t>::max());
}

TEST_F(MemoryRoomTest, TheTightestGroupCountsWithoutFilePagesThatCanGo) {
  Write("proc/meminfo", "MemAvailable: 8000 kB\n");
  Write("proc/self/cgroup", "0::/pods/one\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  Write("sys/fs/cgroup/memory.current", "900000\n");
  Write("sys/fs/cgroup/pods/memory.max", "1000000\n");
  Write("sys/fs/cgroup/pods/memory.current", "900000\n");
  Write("sys/fs/cgroup/pods/memory.stat", "anon 100\ninactive_file 50000\nactive_file 7\n");
  Write("sys/fs/cgroup/pods/one/memory.max", "800000\n");
  Write("sys/fs/cgroup/pods/one/memory.current", "100000\n");
  EXPECT_EQ(ReadMemoryRoom(root_).limit, 150000);
  EXPECT_EQ(ReadMemoryRoom(root_).available, 150000);
}

TEST_F(MemoryRoomTest, AGroupThatUsesMoreThanItsLimitHasNoRoom) {
  Write("sys/fs/cgroup/memory.max", "1000\n");
  Write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(ReadMemoryRoom(root_).limit, 0);
}

}  // namespace
}  // namespace trainyard::engine
