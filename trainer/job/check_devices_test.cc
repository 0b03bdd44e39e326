#include "trainer/job/check_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TrainingConfig Config(StrategyConfig::Kind kind, int devices, StrategyConfig::Mode mode = StrategyConfig::Mode::kSync) {
  TrainingConfig config;
  config.strategy.kind = kind;
  config.strategy.mode = mode;
  config.devices = devices;
  return config;
}

TEST(CheckDevicesTest, OneWorkerMayHaveAnyNumberOfDevices) {
  for (const StrategyConfig::Kind kind :
       {StrategyConfig::Kind::kLocal, StrategyConfig::Kind::kParameterServer, StrategyConfig::Kind::kAllReduce}) {
    for (const int devices : {1, 2, 3, 7, 256}) EXPECT_TRUE(CheckDevices(Config(kind, devices), 1).ok()) << devices;
  }
}

TEST(CheckDevicesTest, WorkersThatAddTheirGradientsHaveAPowerOfTwoOfDevicesEach) {
  for (const StrategyConfig::Kind kind : {StrategyConfig::Kind::kParameterServer, StrategyConfig::Kind::kAllReduce}) {
    for (const int devices : {1, 2, 4, 8}) EXPECT_TRUE(CheckDevices(Config(kind, devices), 3).ok()) << devices;
    for (const int devices : {3, 6}) {
      const absl::Status status = CheckDevices(Config(kind, devices), 2);
      EXPECT_TRUE(absl::IsInvalidArgument(status));
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("spec.training.devices: found"), HasSubstr("a power of two"),
                                                       HasSubstr("because 2 workers add their gradients")));
    }
  }
}

TEST(CheckDevicesTest, AsynchronousWorkersAddNothingAndMayHaveAnyNumber) {
  EXPECT_TRUE(CheckDevices(Config(StrategyConfig::Kind::kParameterServer, 3, StrategyConfig::Mode::kAsync), 5).ok());
}

TEST(CheckDevicesTest, ARecordCanTellHowManyDevicesAreInItsSum) {
  EXPECT_TRUE(CheckDevices(Config(StrategyConfig::Kind::kAllReduce, 8), 4096).ok());
  EXPECT_THAT(std::string(CheckDevices(Config(StrategyConfig::Kind::kAllReduce, 16), 4096).message()),
              HasSubstr("found 16, expected at most 15, because 4096 workers have 65535 devices together at most"));
}

}  // namespace
}  // namespace trainyard::engine
