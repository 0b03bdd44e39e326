// Where a test runs: on this machine, whose loops run the bodies of kernels, or on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"

namespace trainyard::engine::cuda {

enum class Where { kHost, kGpu };

// Suites are instantiated with WhereValues() and WhereName.
class TestSomewhere : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (GetParam() == Where::kHost) return;
    if (const auto count = CudaDeviceCount(); !count.ok()) GTEST_SKIP() << "no GPU, so this was not run on one: " << count.status();
  }

  absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(Precision precision = Precision::kFloat32, HostDeviceCounts* counts = nullptr) {
    if (GetParam() == Where::kGpu) return MakeCudaBackend({.precision = precision});
    return MakeDeviceBackend(std::make_unique<HostDevice>(HostDeviceOptions{}, counts), {.precision = precision});
  }
};

inline auto WhereValues() { return testing::Values(Where::kHost, Where::kGpu); }
inline std::string WhereName(const testing::TestParamInfo<Where>& info) { return info.param == Where::kHost ? "Host" : "Gpu"; }

}  // namespace trainyard::engine::cuda
