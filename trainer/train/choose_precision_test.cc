#include "trainer/train/choose_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/job/job_config.h"

namespace trainyard::engine {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TrainingConfig Config(const std::string& more = "precision: auto") {
  const auto config = ParseTrainingText(
      "model: {preset: lenet5}\ndata: {format: synthetic, train: {examples: 8}}\nbatchSize: 4\nsteps: 5\n" + more + "\n", "t.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

absl::StatusOr<std::unique_ptr<Backend>> Cpu(Precision precision) { return MakeCpuBackend({.threads = 1, .precision = precision}); }
bool Never() { return false; }

TEST(DecidePrecision, TakesBfloat16WhereItIsFasterByMoreThanNoise) {
  const PrecisionTrial full{.kernels = "avx512", .seconds = 0.010};
  EXPECT_EQ(DecidePrecision(full, {.kernels = "amx", .seconds = 0.004}).precision, Precision::kBfloat16);
  EXPECT_EQ(DecidePrecision(full, {.kernels = "avx512bf16", .seconds = 0.0097}).precision, Precision::kFloat32);
  EXPECT_EQ(DecidePrecision(full, {.kernels = "avx512bf16", .seconds = 0.020}).precision, Precision::kFloat32);
  EXPECT_EQ(DecidePrecision(full, {.kernels = "amx", .seconds = 0.004}).reason,
            "forward and backward take 4 ms in bfloat16 by amx, 10 ms in float32 by avx512");
}

TEST(ChoosePrecision, APrecisionThatTheJobNamesIsNotMeasured) {
  const auto no_backend = [](Precision) -> absl::StatusOr<std::unique_ptr<Backend>> { return absl::InternalError("asked for"); };
  const auto choice = ChoosePrecision(Config("precision: bfloat16"), no_backend, Never);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->precision, Precision::kBfloat16);
  EXPECT_THAT(choice->reason, IsEmpty());
}

TEST(ChoosePrecision, AutoTakesTf32OnAGpuAndMeasuresNothing) {
  int made = 0;
  const auto gpu = [&made](Precision) {
    ++made;
    return cuda::MakeDeviceBackend(std::make_unique<cuda::HostDevice>());
  };
  const auto choice = ChoosePrecision(Config(), gpu, Never);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->precision, Precision::kTf32);
  EXPECT_EQ(choice->reason, "host multiplies tf32 faster, and all values stay float32");
  EXPECT_EQ(made, 1);
}

TEST(ChoosePrecision, AutoMeasuresBothOrSaysThatThereIsNothingToMeasure) {
  const auto choice = ChoosePrecision(Config(), Cpu, Never);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_THAT(choice->reason, AnyOf(StartsWith("forward and backward take"), HasSubstr("has no kernels for bfloat16")));
}

TEST(ChoosePrecision, KernelsThatServeBothPrecisionsAreNotTried) {
  int made = 0;
  const auto same = [&made](Precision) {
    ++made;
    return MakeCpuBackend({.threads = 1, .isa = "baseline"});
  };
  const auto choice = ChoosePrecision(Config(), same, Never);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->precision, Precision::kFloat32);
  EXPECT_EQ(choice->reason, "this processor has no kernels for bfloat16, only baseline");
  EXPECT_EQ(made, 2);
}

TEST(ChoosePrecision, AStopEndsTheMeasurementAfterOneStepOfEachTurn) {
  int asked = 0;
  const auto stop = [&asked] {
    ++asked;
    return true;
  };
  ASSERT_TRUE(ChoosePrecision(Config(), Cpu, stop).ok());
  EXPECT_LE(asked, 4);
}

}  // namespace
}  // namespace trainyard::engine
