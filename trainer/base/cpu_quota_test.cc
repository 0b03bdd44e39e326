#include "trainer/base/cpu_quota.h"

#include <gtest/gtest.h>

#include "trainer/base/test_root.h"

namespace trainyard::engine {
namespace {

class CpuQuotaTest : public RootTest {};

TEST_F(CpuQuotaTest, WithoutCgroupsItIsTheAffinityMask) { EXPECT_GE(CpuQuota(root_), 1); }

TEST_F(CpuQuotaTest, V2QuotaOfOneProcessorGivesOne) {
  Write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(CpuQuota(root_), 1);
}

TEST_F(CpuQuotaTest, FractionsRoundDownButNeverToZero) {
  Write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(CpuQuota(root_), 1);
  Write("sys/fs/cgroup/cpu.max", "190000 100000\n");
  EXPECT_EQ(CpuQuota(root_), 1);
}

TEST_F(CpuQuotaTest, V2GroupOfTheProcessAndItsAncestorsCount) {
  Write("proc/self/cgroup", "0::/kubepods/pod1/main\n");
  Write("sys/fs/cgroup/kubepods/pod1/main/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/kubepods/pod1/cpu.max", "100000 100000\n");
  EXPECT_EQ(CpuQuota(root_), 1);
}

TEST_F(CpuQuotaTest, V1QuotaOfTheProcessCounts) {
  Write("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/abc\n");
  Write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "100000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(root_), 1);
}

TEST_F(CpuQuotaTest, NoLimitAndNonsenseSetNoLimit) {
  const int unlimited = CpuQuota(root_);
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("proc/self/cgroup", "nonsense\n0::/x\n");
  Write("sys/fs/cgroup/x/cpu.max", "lots of it\n");
  EXPECT_EQ(CpuQuota(root_), unlimited);
}

}  // namespace
}  // namespace trainyard::engine
