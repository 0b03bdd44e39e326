#include "operator/api/devices.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::control {
namespace {

using nlohmann::json;

json Limits(const json& limits) { return {{"limits", limits}}; }

TEST(Devices, WholeGpusOfEveryVendorCount) {
  for (const char* name : {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"}) {
    EXPECT_EQ(WholeGpus(Limits({{name, 4}, {"cpu", 8}})), 4) << name;
    EXPECT_TRUE(AsksForDevice(Limits({{name, 4}}))) << name;
  }
  EXPECT_EQ(WholeGpus(Limits({{"nvidia.com/gpu", "8"}})), 8);
  EXPECT_EQ(WholeGpus({{"limits", {{"amd.com/gpu", 2}}}, {"requests", {{"amd.com/gpu", 2}}}}), 2);
}

TEST(Devices, SlicesAndSharesGiveAProcessOneDeviceHoweverManyAreAskedFor) {
  for (const char* name : {"nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb.shared", "nvidia.com/gpu.shared", "rdma/hca"}) {
    EXPECT_EQ(WholeGpus(Limits({{name, 2}})), 0) << name;
    EXPECT_TRUE(AsksForDevice(Limits({{name, 2}}))) << name;
  }
}

TEST(Devices, WhoAsksForNoneGetsNone) {
  for (const json& resources :
       {json(), json::object(), Limits({{"cpu", "2"}, {"memory", "1Gi"}, {"hugepages-2Mi", "4Mi"}}), Limits({{"nvidia.com/gpu", 0}}),
        Limits("x"), Limits({{"nvidia.com/gpu", "many"}}), Limits({{"nvidia.com/gpu", -1}}), json({{"claims", json::array()}})}) {
    EXPECT_EQ(WholeGpus(resources), 0) << resources;
    EXPECT_FALSE(AsksForDevice(resources)) << resources;
  }
  EXPECT_TRUE(AsksForDevice({{"claims", {{{"name", "gpu"}}}}}));
  EXPECT_LE(WholeGpus(Limits({{"nvidia.com/gpu", "9E"}})), 1000);
}

}  // namespace
}  // namespace trainyard::control
