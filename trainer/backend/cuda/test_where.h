// Where a test runs: on this machine, whose loops run the bodies of kernels, or on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/base/status_macros.h"

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

  // Of device `device` of several: on a GPU of its own where there are as many, else on the first.
  absl::StatusOr<std::unique_ptr<Backend>> MakeBackendOf(int device, int devices, const HostDeviceOptions& options,
                                                         HostDeviceCounts* counts, Precision precision = Precision::kFloat32) {
    if (GetParam() == Where::kHost) return MakeDeviceBackend(std::make_unique<HostDevice>(options, counts), {.precision = precision});
    TY_ASSIGN_OR_RETURN(const int gpus, CudaDeviceCount());
    return MakeCudaBackend({.device = gpus >= devices ? device : 0, .precision = precision});
  }
};

inline auto WhereValues() { return testing::Values(Where::kHost, Where::kGpu); }
inline std::string WhereName(const testing::TestParamInfo<Where>& info) { return info.param == Where::kHost ? "Host" : "Gpu"; }

}  // namespace trainyard::engine::cuda
